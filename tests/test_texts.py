"""The example that searches over texts: its own model, and a model behind HTTP as the protocol of chats has it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import urllib.error
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from examples.texts import SENTENCES, ChatModel, Stub, Texts, embedding, improve, searching

EXAMPLE = Path(__file__).parents[1] / "examples" / "texts.py"


def quiet(line):
    pass


def test_the_search_finds_a_text_that_names_everything():
    texts = Texts(Stub())
    search = searching(texts)
    best = improve(search, texts, 200, say=quiet)
    assert len(best) == SENTENCES and texts.value(best) == 1.0
    # Fewer than one in thirty of the model's texts do, so drawing as many would not be enough by itself.
    sentences = Stub.KNOWN[::7]
    values = [Stub().value(f"{a} {b} {c}") for a in sentences for b in sentences for c in sentences]
    assert sum(value == 1.0 for value in values) < len(values) / 30
    nodes = search.tree.nodes
    assert 1 < nodes[0]["num_visited"] < nodes[0]["num_children"] == 64  # widening enters few of the moves
    memory = [move.memory for move in search.so_far().moves if move.memory is not None]
    assert len(memory) == nodes[0]["num_visited"] and all(0.0 <= value <= 1.0 for value in memory)


def test_similar_texts_share_values():
    """A new leaf's first advice is the value that another text of the same words was told."""
    texts = Texts(Stub())
    search, first = searching(texts, leaves=1), None
    for value in (0.9, 0.1, 0.5):
        leaf = search.ask()[0]
        if first is None and leaf.moves:
            first = leaf.moves[0]
        vector = embedding("the same words") if leaf.moves else embedding("")
        search.tell(leaf, value, embedding=vector)
    moves = {move.action: move for move in search.so_far().moves}
    second = next(action for action, move in moves.items() if move.visits and action != first)
    assert moves[first].value == pytest.approx(0.1, abs=1e-6)
    assert moves[second].memory == pytest.approx(0.1, abs=0.02)  # not its own 0.5, nor the root's 0.9


class Chat(BaseHTTPRequestHandler):
    """A model that answers as the protocol says: a sentence of its own, or a mark for a text's words."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (message,) = body["messages"]
        self.server.asked.append((self.path, self.headers["Authorization"], body["model"], message["role"]))
        prompt = message["content"]
        if self.server.away:
            self.send_error(503)
            return
        if "Mark it" in prompt:
            text = prompt.split("unfinished: ")[1].split("\n")[0]
            answer = f"I say {min(100, 10 * len(set(text.split())))}."
        else:
            answer = f"Sentence number {prompt.count(chr(10) + '- ') + 1} says it."
        content = json.dumps({"choices": [{"message": {"role": "assistant", "content": answer}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def chat():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
    server.asked, server.away = [], False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_behind_an_address(chat):
    command = [sys.executable, str(EXAMPLE), "--url", f"http://127.0.0.1:{chat.server_port}/v1/", "--model", "small"]
    environment = {"OPENAI_API_KEY": "a key of this test"}
    done = subprocess.run(
        [*command, "--questions", "20"], capture_output=True, text=True, env=os.environ | environment, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "0.10  (nothing yet)" and lines[-1].startswith("best, ")
    assert re.search(r"0\.70: (Sentence number \d says it\. ?){3}$", lines[-1])
    assert set(chat.asked) == {("/v1/chat/completions", "Bearer a key of this test", "small", "user")}
    assert len(chat.asked) > 20


def test_a_model_that_goes_away_costs_nothing(chat):
    texts = Texts(ChatModel(f"http://127.0.0.1:{chat.server_port}/v1", "small"))
    search = searching(texts)
    improve(search, texts, 10, say=quiet)
    visits = int(search.tree.nodes[0]["visit_count"])
    chat.away = True
    with pytest.raises(urllib.error.HTTPError, match="503"):
        improve(search, texts, 10, say=quiet)
    assert not search.leaves and search.tree.nodes[0]["visit_count"] >= visits
    assert not search.tree.nodes["in_flight"].any()
    chat.away = False
    assert improve(search, texts, 10, say=quiet)
    assert search.tree.nodes[0]["visit_count"] >= visits + 10
