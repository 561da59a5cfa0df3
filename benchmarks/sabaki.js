// Sabaki's own GTP library against `engram gtp`: npm install @sabaki/gtp && node benchmarks/sabaki.js
// Sabaki keeps an engine at the position on its screen by state changes (undo, play, clear_board) and draws what
// lz-analyze streams until the next command; all of that goes through this library.
const assert = require('assert')
const {Controller, ControllerStateTracker} = require('@sabaki/gtp')

const pause = (ms) => new Promise((done) => setTimeout(done, ms))
const moves = (text) => text.split(' ').map((point, k) => ({name: 'play', args: [k % 2 ? 'W' : 'B', point]}))

async function analysis(engine, name, colour) {
  const lines = []
  const answer = engine.sendCommand({name, args: [colour, '20']}, ({line}) => lines.push(line))
  await pause(1500)
  await engine.sendCommand({name: 'name'}) // any command ends the stream
  await answer
  return lines.filter((line) => line.startsWith('info move'))
}

async function main() {
  const engine = new Controller('engram', ['gtp', '--game', 'go:9', '--search', 'rave(rollout=heavy)', '-n', '1000'])
  engine.start()
  const tracker = new ControllerStateTracker(engine)
  const timeSettings = {mainTime: 300, byoyomiTime: 5, byoyomiStones: 1}
  await tracker.sync({komi: 6.5, boardsize: [9, 9], timeSettings, history: moves('E5 C3 G7')})
  assert.deepStrictEqual(tracker.state.history, moves('E5 C3 G7'))
  // Another line of the game tree: the library takes back and plays what differs.
  await tracker.sync({komi: 7.5, boardsize: [9, 9], history: moves('E5 C3 G3 C7')})
  assert.deepStrictEqual(tracker.state.history, moves('E5 C3 G3 C7'))
  const board = await engine.sendCommand({name: 'showboard'})
  assert(board.content.includes('X to play'))
  const rows = board.content.split('\n').filter((line) => /^ *\d+ [.XO ]+\d+/.test(line))
  assert.strictEqual(rows.map((row) => row.replace(/[^XO]/g, '')).join(','), ',,O,,X,,OX,,') // C7, E5, C3 and G3

  for (const name of ['lz-analyze', 'kata-analyze']) {
    const lines = await analysis(engine, name, 'B')
    assert(lines.length > 2, `${name} streamed ${lines.length} lines`)
    assert(/visits \d+/.test(lines.at(-1)) && /winrate/.test(lines.at(-1)) && /pv /.test(lines.at(-1)))
  }
  const played = await engine.sendCommand({name: 'lz-genmove_analyze', args: ['B', '50']})
  assert(/\nplay [A-J][1-9]|^play/.test(played.content))
  const answer = await engine.sendCommand({name: 'genmove', args: ['W']})
  assert(!answer.error)
  await tracker.sync({boardsize: [13, 13], history: moves('D4 K10')})
  assert.deepStrictEqual(tracker.state.boardsize, [13, 13])
  const refused = await engine.sendCommand({name: 'play', args: ['B', 'D4']})
  assert(refused.error, 'a stone on a stone was accepted')
  await engine.stop(5000)
  console.log('Sabaki\'s library: state, streams, moves and refusals as expected')
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1) })
