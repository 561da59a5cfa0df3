"""A search over texts, sentence by sentence; the language model that writes and judges them is outside the search.

    python examples/texts.py                                                  a small model in this file
    python examples/texts.py --url http://localhost:8000/v1 --model MODEL     one that speaks OpenAI's protocol

A move is the k-th continuation that the model proposes for a text. So there is no end of moves, and `widening` enters
them one after another. The values of texts come through `ask` and `tell`. A memory compares the words of texts: similar
texts share values.
"""

import argparse
import json
import os
import re
import urllib.request
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np

import engram
from engram.memory.features import Features
from engram.memory.similar_positions import remembering

TASK = "Explain Monte-Carlo tree search to a newcomer in three sentences."
SENTENCES, MOST = 3, 64  # sentences of a text, and the most continuations of one text
DIMENSION = 128


class Stub:
    """A model that knows a few phrases; it values a text by the share of six subjects that the text names."""

    SUBJECTS = ("tree", "random", "value", "move", "time", "learn")
    PARTS = (
        ("It", "The search", "A program", "The tree", "Each game"),
        ("grows", "plays at random", "learns", "takes its time", "counts", "stops"),
        (
            "from the start",
            "for the value of a move",
            "with each game",
            "until the time is over",
            "in the tree",
            "again",
        ),
    )
    KNOWN = tuple(" ".join(parts) + "." for parts in product(*PARTS))

    def continuation(self, text, others):
        """The next sentence of this text, different from all of `others`."""
        start = zlib.crc32(text.encode())
        order = sorted(set(self.KNOWN) - set(others), key=lambda sentence: zlib.crc32(sentence.encode(), start))
        return order[0]

    def value(self, text):
        """The quality of a text, finished or not, in [0, 1]."""
        return sum(subject in text.lower() for subject in self.SUBJECTS) / len(self.SUBJECTS)


class ChatModel:
    """A model at an address that speaks OpenAI's chat protocol."""

    def __init__(self, url, model, key=""):
        self.url, self.model, self.key = url.rstrip("/"), model, key

    def chat(self, prompt, temperature):
        """The model's answer."""
        message = {"role": "user", "content": prompt}
        body = json.dumps({"model": self.model, "temperature": temperature, "messages": [message]}).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        request = urllib.request.Request(f"{self.url}/chat/completions", body, headers)
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)["choices"][0]["message"]["content"]

    def continuation(self, text, others):
        """The next sentence of this text, different from all of `others`."""
        avoid = "".join(f"\n- {sentence}" for sentence in others)
        prompt = f"{TASK}\nSo far: {text or '(nothing)'}\nWrite the next sentence alone."
        return self.chat(prompt + (f" It differs from:{avoid}" if others else ""), 1.0).strip()

    def value(self, text):
        """The model's mark for a text, in [0, 1]."""
        prompt = f"{TASK}\nA text, perhaps unfinished: {text or '(nothing)'}\nMark it from 0 to 100 by a number alone."
        mark = re.search(r"\d+", self.chat(prompt, 0.0))
        if mark is None:
            raise ValueError("the model gave no mark")
        return min(int(mark[0]), 100) / 100


class Texts:
    """What the model has said so far; each question is asked once."""

    def __init__(self, model):
        self.model, self.next, self.values = model, {}, {}

    def continuation(self, text, number):
        """The continuation of a text with this number."""
        continuations = self.next.setdefault(text, [])
        while len(continuations) <= number:
            continuations.append(self.model.continuation(" ".join(text), continuations))
        return continuations[number]

    def value(self, text):
        """The value of a text."""
        if text not in self.values:
            self.values[text] = self.model.value(" ".join(text))
        return self.values[text]


class Text:
    """A position: the sentences so far."""

    def __init__(self, texts, sentences=()):
        self.texts, self.sentences = texts, sentences

    def legal_actions(self):
        return range(MOST) if len(self.sentences) < SENTENCES else []

    def play(self, action):
        self.sentences = (*self.sentences, self.texts.continuation(self.sentences, action))

    def to_play(self):
        return 0

    def outcome(self):
        return self.texts.value(self.sentences)

    def copy(self):
        return Text(self.texts, self.sentences)

    def __str__(self):
        return " ".join(self.sentences) or "(nothing yet)"


def embedding(text):
    """The words of a text as a vector: texts with the same words point in the same direction."""
    vector = np.zeros(DIMENSION, np.float32)
    vector[0] = 0.1  # the empty text has a direction, too
    for word in re.findall(r"\w{3,}", text.lower()):
        vector[zlib.crc32(word.encode()) % DIMENSION] += 1.0
    return vector


def searching(texts, leaves=4, memory=True):
    """A search over texts; without `memory` no two texts share values."""
    game = engram.PythonGame(
        "texts", lambda: Text(texts), num_actions=MOST, max_moves=SENTENCES, players=1, bounds=(0.0, 1.0)
    )
    preset = engram.presets.uct(exploration=0.5, widening=1.0)
    if memory:
        extension = remembering(
            features=lambda game: Features(game, DIMENSION, embedding_size=DIMENSION), temperature=0.05
        )
        preset = replace(preset, extensions=(extension,))
    return engram.Search(game, preset, leaves=leaves)


def improve(search, texts, questions, say=print):
    """Asks and tells until `questions` values are told or no leaf is left; returns the best finished text."""
    count = 0
    with ThreadPoolExecutor(search.preset.num_leaves) as pool:
        while count < questions and (leaves := search.ask(search.preset.num_leaves)):
            try:
                values = list(pool.map(lambda leaf: texts.value(leaf.state.sentences), leaves))
            except (OSError, ValueError):  # the model does not answer, or answers nonsense: the tree keeps its values
                for leaf in leaves:
                    search.forget(leaf)
                raise
            for leaf, value in zip(leaves, values, strict=True):
                search.tell(leaf, value, embedding=embedding(str(leaf.state)) if search.extensions else None)
                count += 1
                say(f"{value:.2f}  {leaf.state}")
    full_texts = [text for text in texts.values if len(text) == SENTENCES]
    return max(full_texts, key=texts.value, default=())


def main():
    """Runs the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", help="address of a model with OpenAI's protocol; default: the model in this file")
    parser.add_argument("--model", default="", help="the name of the model at that address")
    parser.add_argument("--questions", type=int, default=150, help="number of values to ask for")
    options = parser.parse_args()
    model = ChatModel(options.url, options.model, os.environ.get("OPENAI_API_KEY", "")) if options.url else Stub()
    texts = Texts(model)
    best = improve(searching(texts), texts, options.questions)
    print(f"\nbest, {texts.value(best):.2f}: {' '.join(best)}" if best else "\nno text was finished")


if __name__ == "__main__":
    main()
