// A report draws its curves as soon as it is there.

import { drawCurves } from "./charts.js";

drawCurves(document);
