"""The whole search in plain Python: slow, clear, and written from METHODS alone.

It shares no line with the compiled search, which must grow the same tree from the same seed, node by
node. All values are for player 0; Q is what the player to move at the parent makes of them.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

WORD = (1 << 64) - 1
EXPAND = -1


# ------------------------------------------------------------------------------------- the generator
class Rng:
    """xoroshiro128+ seeded by splitmix64, on Python integers."""

    def __init__(self, seed: int):
        self.a = self._mixed(seed + 0x9E3779B97F4A7C15)
        self.b = self._mixed(seed + 2 * 0x9E3779B97F4A7C15)

    @staticmethod
    def _mixed(word: int) -> int:
        word &= WORD
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
        return word ^ (word >> 31)

    @staticmethod
    def _rotated(word: int, bits: int) -> int:
        return ((word << bits) | (word >> (64 - bits))) & WORD

    def word(self) -> int:
        result = (self.a + self.b) & WORD
        low = self.a ^ self.b
        self.a = self._rotated(self.a, 24) ^ low ^ ((low << 16) & WORD)
        self.b = self._rotated(low, 37)
        return result

    def below(self, bound: int) -> int:
        return ((self.word() >> 32) * bound) >> 32

    def float(self) -> float:
        return (self.word() >> 11) / 2.0**53


# ------------------------------------------------------------------------------------------- games
class Position:
    """A position has `legal_actions()`, `play(action)` in place, `to_play()` and `outcome()` for player 0."""

    rolled: Sequence[tuple[int, int]] = ()  # (action, player) of the last rollout

    def copy(self) -> Any:
        return copy.deepcopy(self)

    def rollout(self, rng: Rng) -> float:
        self.rolled = rolled = []
        while actions := self.legal_actions():
            action = actions[rng.below(len(actions))]
            rolled.append((action, self.to_play()))
            self.play(action)
        return self.outcome()


class ReturnPosition(Position):
    """A position with `chance()`, weights where player 2 moves, and `reward()` of the last move."""

    discount = 1.0

    def rollout(self, rng: Rng) -> float:
        total, factor = 0.0, 1.0
        while actions := self.legal_actions():
            action = actions[rng.below(len(actions))] if self.to_play() != 2 else actions[drawn(self.chance(), rng)]
            self.play(action)
            total += factor * self.reward()
            factor *= 1.0 if self.legal_actions() and self.to_play() == 2 else self.discount
        return total + factor * self.outcome()


def drawn(weights: Sequence[float], rng: Rng) -> int:
    """An index drawn by its weight."""
    left = rng.float() * sum(weights)
    for index, weight in enumerate(weights):
        left -= weight
        if left < 0.0:
            return index
    return len(weights) - 1


class LinePosition(Position):
    """A line game on an array: cells row by row from the top, -1 where empty."""

    def __init__(self, rows: int, columns: int, run: int, gravity: bool = False):
        self.columns, self.gravity = columns, gravity
        self.board = [-1] * (rows * columns)
        self.moves, self.winner = 0, -1
        # The cells in the order of their bits: column by column, each from the bottom.
        self.order = [row * columns + column for column in range(columns) for row in reversed(range(rows))]
        self.runs: list[list[list[int]]] = [[] for _ in self.board]  # through each cell
        for row, column, (down, right) in itertools.product(range(rows), range(columns), LinePosition.directions):
            if row + (run - 1) * down < rows and 0 <= column + (run - 1) * right < columns:
                cells = [(row + k * down) * columns + column + k * right for k in range(run)]
                for cell in cells:
                    self.runs[cell].append(cells)

    directions = (0, 1), (1, 0), (1, 1), (1, -1)

    def copy(self) -> LinePosition:
        twin = copy.copy(self)
        twin.board = self.board.copy()
        return twin

    def to_play(self) -> int:
        return self.moves % 2

    def playable(self) -> list[int]:
        """Cells where a stone can be put, in the order of their bits."""
        if self.winner >= 0:
            return []
        empty = [cell for cell in self.order if self.board[cell] < 0]
        if not self.gravity:
            return empty
        lowest = {cell % self.columns: cell for cell in reversed(empty)}
        return [lowest[column] for column in sorted(lowest)]

    def legal_actions(self) -> list[int]:
        return sorted(cell % self.columns if self.gravity else cell for cell in self.playable())

    def play(self, action: int) -> None:
        self.put(next(cell for cell in self.playable() if action == (cell % self.columns if self.gravity else cell)))

    def put(self, cell: int) -> None:
        player = self.to_play()
        self.board[cell] = player
        self.moves += 1
        if any(all(self.board[other] == player for other in cells) for cells in self.runs[cell]):
            self.winner = player

    def key(self) -> Any:
        return tuple(self.board)

    def outcome(self) -> float:
        return {-1: 0.0, 0: 1.0, 1: -1.0}[self.winner]

    def rollout(self, rng: Rng) -> float:
        self.rolled = rolled = []
        while cells := self.playable():
            cell = cells[rng.below(len(cells))]
            rolled.append((cell % self.columns if self.gravity else cell, self.to_play()))
            self.put(cell)
        return self.outcome()


# -------------------------------------------------------------------------------------------- the tree
@dataclass
class Node:
    """Children stand with the visited ones first, in the order in which they were entered."""

    action: int = -1
    prior: float = 1.0
    value: float = 0.0
    mean: float = 0.0
    visit_count: int = 0
    player: int = 0
    terminal: bool = False
    proven: bool = False
    bars: bool = False  # visits leave out its proven children
    barred: bool = False  # such a child
    has_priors: bool = False  # somebody gave its children priors
    num_visited: int = 0
    children: list[Node] = field(default_factory=list)
    own_returns: list[float] = field(default_factory=list)  # its own evaluations, for player 0
    key: Any = None  # of its position, where transpositions share
    amaf_returns: list[float] = field(default_factory=list)  # for player 0
    bucket: Any = None  # of nodes whose evaluations err alike
    error: float = 0.0  # its part of its bucket's weighted errors, for player 0
    weight: float = 0.0
    memory_value: float = 0.0
    memory_count: float = 0.0
    reward: float = 0.0  # of the move that leads to it, in the game's units
    here: float = 0.0  # value of its position, where `value` is that of the move to it

    @property
    def sign(self) -> float:
        return -1.0 if self.player == 1 else 1.0

    @property
    def visited(self) -> list[Node]:
        return self.children[: self.num_visited]

    def size(self) -> int:
        return 1 + sum(child.size() for child in self.children)


# ------------------------------------------------------------------------------------------- selection
Quality = Callable[[Node, Node], float]
Selection = Callable[[Node, Rng, Quality], int]
"""(node, generator, Q of a child for the mover) -> index of a child, visited or not, or EXPAND."""


def _highest(node: Node, urgency: float, score: Callable[[Node], float]) -> int:
    choice, best = EXPAND, urgency if node.num_visited < len(node.children) else -math.inf
    for index, child in enumerate(node.visited):
        if score(child) > best:
            choice, best = index, score(child)
    return choice


def ucb1(exploration: float = 1.0, first_play_urgency: float = math.inf) -> Selection:
    def select(node: Node, rng: Rng, q: Quality) -> int:
        scale = exploration * math.sqrt(math.log(max(node.visit_count, 1)))
        return _highest(node, first_play_urgency, lambda child: q(node, child) + scale / math.sqrt(child.visit_count))

    return select


def puct(exploration: float = 1.25, first_play_urgency: float = math.nan, reduction: float = 0.0) -> Selection:
    def select(node: Node, rng: Rng, q: Quality) -> int:
        scale = exploration * math.sqrt(node.visit_count)
        own = node.sign * node.here - reduction
        urgency = own if math.isnan(first_play_urgency) else first_play_urgency
        if node.num_visited < len(node.children):
            urgency += scale * node.children[node.num_visited].prior
        return _highest(node, urgency, lambda child: q(node, child) + scale * child.prior / (1 + child.visit_count))

    return select


def ucb1_prior(exploration: float = 1.0, strength: float = 200.0, prior_exploration: float = 0.0) -> Selection:
    def select(node: Node, rng: Rng, q: Quality) -> int:
        if not node.has_priors:
            return ucb1(exploration)(node, rng, q)
        likeliest = max(child.prior for child in node.children)
        bounds = []
        for index, child in enumerate(node.children):
            share = child.prior / likeliest
            n = child.visit_count + strength * share
            total = child.visit_count * q(node, child) if index < node.num_visited else 0.0
            value = (total + strength * share * share) / n if n else 0.0
            bounds.append(
                value + prior_exploration * math.sqrt(math.log(max(node.visit_count, 1))) / math.sqrt(max(n, 1.0))
            )
        return bounds.index(max(bounds))

    return select


def rave(
    exploration: float = 0.0,
    equivalence: float = 1000.0,
    bias: float | None = None,
    strength: float = 0.0,
    first_play_urgency: float = math.inf,
) -> Selection:
    def select(node: Node, rng: Rng, q: Quality) -> int:
        best, highest, unknown = EXPAND, -math.inf, []
        seeds = strength > 0.0 and node.has_priors
        likeliest = max(child.prior for child in node.children)
        for index, child in enumerate(node.children):
            n, value = (float(child.visit_count), q(node, child)) if index < node.num_visited else (0.0, 0.0)
            if seeds:
                share = child.prior / likeliest
                total = n + strength * share
                n, value = total, (n * value + strength * share * share) / total if total else 0.0
            m = len(child.amaf_returns)
            if not m and not n:
                unknown.append(index)
                continue
            if m and value > -math.inf:
                beta = math.sqrt(equivalence / (3.0 * n + equivalence)) if n else 1.0
                if bias is not None and n:
                    beta = m / (n + m + 4.0 * n * m * bias * bias)
                mean = 0.0
                for number, sample in enumerate(child.amaf_returns, 1):
                    mean += (sample - mean) / number
                value += beta * (node.sign * mean - value)
            bound = value + exploration * math.sqrt(math.log(max(node.visit_count, 1))) / math.sqrt(n + 1.0)
            if bound > highest:
                best, highest = index, bound
        if unknown and first_play_urgency > highest:
            return unknown[rng.below(len(unknown)) if len(unknown) > 1 else 0]
        return best

    return select


def puct_rave(exploration: float = 1.0, strength: float = 10.0, bias: float = 0.0085) -> Selection:
    def select(node: Node, rng: Rng, q: Quality) -> int:
        own, best, highest = node.sign * node.here, EXPAND, -math.inf
        for index, child in enumerate(node.children):
            n, value = child.visit_count, own
            m = len(child.amaf_returns)
            if index < node.num_visited and child.terminal:
                m, value = 0, q(node, child)
            elif index < node.num_visited:
                value = (n * q(node, child) + strength * own) / (n + strength)
            if m and value > -math.inf:
                mean = 0.0
                for number, sample in enumerate(child.amaf_returns, 1):
                    mean += (sample - mean) / number
                n0 = n + strength
                beta = m / (n0 + m + 4.0 * n0 * m * bias * bias) if n0 else 1.0
                value += beta * (node.sign * mean - value)
            bound = value + exploration * math.sqrt(node.visit_count) * child.prior / (1 + n)
            if bound > highest:
                best, highest = index, bound
        return best

    return select


def widening(selection: Selection, coefficient: float = 1.0, exponent: float = 0.5) -> Selection:
    def select(node: Node, rng: Rng, q: Quality) -> int:
        limit = max(1, math.ceil(coefficient * node.visit_count**exponent))
        if node.has_priors or node.num_visited >= limit:
            node = replace(node, children=node.children[: max(limit, node.num_visited)])
        return selection(node, rng, q)

    return select


def epsilon_greedy(epsilon: float = 0.1, first_play_urgency: float = math.inf) -> Selection:
    def select(node: Node, rng: Rng, q: Quality) -> int:
        if node.num_visited < len(node.children) and first_play_urgency == math.inf:
            return EXPAND
        if epsilon > 0.0 and rng.float() < epsilon:
            drawn = rng.below(len(node.children))
            if drawn >= node.num_visited:
                return EXPAND
            if q(node, node.children[drawn]) > -math.inf:
                return drawn
        return _highest(node, first_play_urgency, lambda child: q(node, child))

    return select


def greedy(first_play_urgency: float = math.inf) -> Selection:
    return epsilon_greedy(0.0, first_play_urgency)


# ---------------------------------------------------------------------------------------------- backup
@dataclass
class Units:
    """A game's own units: the bounds of its returns, or None for those seen so far, and its discount."""

    bounds: tuple[float, float] | None
    discount: float = 1.0

    def __post_init__(self) -> None:
        self.learns = self.bounds is None

    def of(self, value: float) -> float:
        low, high = self.bounds
        return 0.5 * (low + high) + 0.5 * (high - low) * value

    def scaled(self, x: float) -> float:
        low, high = self.bounds
        return max(-1.0, min(1.0, (2.0 * x - low - high) / (high - low))) if high > low else 0.0

    def factor(self, node: Node) -> float:
        return 1.0 if node.player == 2 else self.discount

    def move(self, node: Node, value: float) -> float:
        """Value of the move to a node, from the value of its position: reward + γ·value in the game's units."""
        if node.reward == 0.0 and self.factor(node) == 1.0:
            return value
        return self.scaled(node.reward + self.factor(node) * self.of(value))

    def position(self, node: Node) -> float:
        """The inverse of `move`."""
        if node.reward == 0.0 and self.factor(node) == 1.0:
            return node.value
        return self.scaled((self.of(node.value) - node.reward) / self.factor(node))

    def learn(self, root: Node, path: list[Node], x: float) -> None:
        returns = [x]
        for node in path[:0:-1]:
            returns.append(x := node.reward + self.factor(node) * x)
        before = self.bounds
        self.bounds = min([*returns, *(before or [])]), max([*returns, *(before or [])])
        if before is None or before == self.bounds:
            return
        old, row = Units(before), [root]
        for node in row:
            row += node.children
            node.value, node.mean = (self.scaled(old.of(value)) for value in (node.value, node.mean))
            node.own_returns = [self.scaled(old.of(value)) for value in node.own_returns]
            node.here = node.value if node is root else self.position(node)


@dataclass
class Backup:
    """Trace × step × mix. `steps`: α of visit 1, 2, …, its last value holds; None: 1/n.

    The value of a node but the root is that of the move that leads to it; without rewards and discount both are one.
    """

    trace_decay: float = 1.0
    discount: float = 1.0
    bootstrap: str = "taken"
    steps: Sequence[float] | None = None
    min_step: float = 0.0
    mix: Callable[[Node], float] | None = None
    units: Units | None = None  # of a game beyond two players and outcomes in [-1, 1]
    initial: float | None = None  # of a node before its first visit, for player 0; None: the return itself

    def step(self, visits: int) -> float:
        alpha = 1.0 / visits if self.steps is None else self.steps[min(visits, len(self.steps)) - 1]
        return max(alpha, self.min_step)

    def earlier(self, node: Node, successor: Node, target: float) -> float:
        """What the node could expect before this simulation, for player 0; the return itself if nothing."""
        nodes = [successor] if self.bootstrap == "taken" or node.player == 2 else node.visited
        values = [node.sign * child.value for child in nodes if child.visit_count > 0]
        if self.initial is not None and successor.visit_count == 0:
            values.append(node.sign * self.initial)
        return node.sign * max(values, default=node.sign * target)

    def targets(self, path: list[Node], value: float) -> list[float]:
        targets = [target := value]
        for node, successor in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
            target = target if self.units is None else self.units.move(successor, target)
            bootstrap = self.earlier(node, successor, target)
            target = self.trace_decay * target + (1.0 - self.trace_decay) * bootstrap
            if self.units is None:
                target = self.discount * target
            elif self.discount != 1.0 and node.player != 2:
                target = self.units.scaled(self.discount * self.units.of(target))
            targets.append(target)
        return targets[::-1]

    def __call__(self, path: list[Node], value: float) -> None:
        path[-1].own_returns.append(value)
        for node, target in zip(path[::-1], self.targets(path, value)[::-1], strict=True):
            node.visit_count += 1
            if node.proven and self.mix is not None:
                continue
            moves = self.units is not None and node is not path[0]
            new = self.units.move(node, target) if moves and self.mix is None else target
            node.mean += self.step(node.visit_count) * (new - node.mean)
            node.value = node.mean if self.mix is None else self.mix(node)
            if self.mix is not None and node.player == 2:
                node.value = _children_and_mean(node)[3]
            if moves and self.mix is not None:
                node.value = self.units.move(node, node.value)
            node.here = self.units.position(node) if moves else node.value


# Ties between moves are common in small games, and one rounding decides them: the sums below are taken in the
# order of the compiled code, exponents against the highest value.
def _children_and_mean(node: Node) -> tuple[list[tuple[int, float]], float, float, float]:
    """(n, Q) of the visited children, number and mean of the node's own evaluations, mean of all; for the mover."""
    children = [(child.visit_count, node.sign * child.value) for child in node.visited if child.visit_count > 0]
    own = 0.0
    for number, value in enumerate(node.own_returns, 1):
        own += (value - own) / number
    count, own = len(node.own_returns), node.sign * own
    total = count + sum(n for n, _ in children)
    weighted = 0.0
    for n, q in children:
        weighted += n * q
    return children, count, own, (count * own + weighted) / total


def softmax(temperature: Callable[[int], float]) -> Callable[[Node], float]:
    def value(node: Node) -> float:
        children, count, own, mean = _children_and_mean(node)
        if not children:
            return node.mean
        tau = temperature(node.visit_count)
        if tau == 0.0:
            return node.sign * mean
        highest = max([mean] + [q for _, q in children]) if tau > 300.0 else mean
        bottom = count * math.exp(tau * (mean - highest))
        top = bottom * own
        for n, q in children:
            weight = n * math.exp(tau * (q - highest))
            bottom += weight
            top += weight * q
        return node.sign * top / bottom

    return value


def coulom(mean_weight: float, growth: float, points: float) -> Callable[[Node], float]:
    def value(node: Node) -> float:
        children, _, _, mean = _children_and_mean(node)
        if not children:
            return node.mean
        weight = mean_weight * points * max(1.0, node.visit_count / (growth * points))
        n_best, q_best = max(children, key=lambda child: child[0])
        return node.sign * (mean * weight + q_best * n_best) / (weight + n_best)

    return value


class BiasCorrection:
    """A mix: the mean of a node's evaluations, less λ times what its bucket errs by, and its children's values."""

    def __init__(self, strength: float = 0.35, exponent: float = 0.85):
        self.strength, self.exponent = strength, exponent
        self.sums: dict[Any, list[float]] = {}  # of errors and of weights by bucket

    def __call__(self, node: Node) -> float:
        visits, below, own = 0.0, 0.0, 0.0
        for number, value in enumerate(node.own_returns, 1):
            own += (value - own) / number
        for child in node.visited:
            visits += child.visit_count
            below += child.visit_count * child.value
        if node.bucket is not None:
            sums = self.sums.setdefault(node.bucket, [0.0, 0.0])
            if visits:
                weight = visits**self.exponent
                error = weight * (own - below / visits)
                sums[0] += error - node.error
                sums[1] += weight - node.weight
                node.error, node.weight = error, weight
            if sums[1] > 0.0:
                own = min(max(own - self.strength * (sums[0] / sums[1]), -1.0), 1.0)
        count = len(node.own_returns)
        return (count * own + below) / (count + visits)

    def keep(self, root: Node, new_root: Node) -> None:
        """Of the nodes below the root those below another are kept; 0.8 of what the others gave goes with them."""
        self.give(self.below(root), -0.8)
        new_root.bucket = None
        self.give(self.below(new_root), 0.8)
        left = {node.bucket for node in self.below(new_root)}
        self.sums = {bucket: sums for bucket, sums in self.sums.items() if bucket in left}

    def give(self, nodes: list[Node], share: float) -> None:
        for node in nodes:
            if node.bucket is not None:
                sums = self.sums[node.bucket]
                self.sums[node.bucket] = [sums[0] + share * node.error, sums[1] + share * node.weight]

    @staticmethod
    def below(root: Node) -> list[Node]:
        row = [root]
        for node in row:
            row += node.children
        return row


# ---------------------------------------------------------------------------------------------- search
@dataclass
class ReferenceSearch:
    """One tree grown from one position."""

    position: Any
    selection: Selection
    backup: Backup = field(default_factory=Backup)
    expand_after: int = 1
    all_children: bool = False
    max_nodes: float = math.inf  # a node gets no children where `num_actions` more might not fit
    num_actions: int = 0
    evaluator: Callable[[Any], tuple[float, Sequence[float]]] | None = None  # value for the mover, weights by action
    rollout_share: float = 0.0  # of a rollout in the value beside the evaluator's; 1: those are not used
    prior: Callable[[Any], Sequence[float]] | None = None  # weights by action
    first_nodes: float = math.inf  # nodes of a run that are given priors
    recall: Callable[[list[Node], Any], None] | None = None  # what a memory writes before a leaf is evaluated
    remember: Callable[[list[Node], float], None] | None = None  # what it keeps after a backup
    equivalence: float = 0.0  # k of the memory's weight sqrt(k / (3N + k))
    solver: bool = False
    amaf: bool = False
    transpositions: bool = False
    bias: float | None = None  # b of the memory's other weight, N_M / (N + N_M + 4·N·N_M·b²)
    local_pattern: Callable[[Any, int], Any] | None = None  # what lies around a move just made, for bias correction

    def __post_init__(self) -> None:
        self.reset(self.position)

    @property
    def correction(self) -> BiasCorrection | None:
        mix = getattr(self.backup, "mix", None)
        return mix if isinstance(mix, BiasCorrection) else None

    def reset(self, position: Any) -> None:
        self.position, self.full = position.copy(), False
        self.positions: dict[Any, list[float]] = {}  # Σ N·V for player 0 and Σ N over the nodes of a position
        if self.correction is not None:
            self.correction.sums = {}
        self.root = Node(player=position.to_play())
        self.num_nodes, self.replayed = 1, None

    def advance(self, action: int) -> None:
        """Plays a move and keeps what was found below it."""
        self.position.play(action)
        successors = [child for child in self.root.visited if child.action == action]
        correction, root = self.correction, self.root
        sums = correction.sums if correction is not None else {}
        self.reset(self.position)
        if successors and correction is not None:
            correction.sums = sums
            correction.keep(root, successors[0])
        if successors:
            self.root, self.num_nodes = successors[0], successors[0].size()
            self.root.key, row = None, [self.root]
            while row:
                self.add(row, 1.0)
                row = [child for node in row for child in node.children]

    def run(self, simulations: int, seed: int) -> Node:
        rng, self.priors_left = Rng(seed), self.first_nodes
        self.done, self.budget = 0, simulations
        while self.done < simulations and not self.root.proven:
            self.simulate(rng)
        return self.root

    def q(self, node: Node, child: Node) -> float:
        value = node.sign * child.value
        if child.proven:
            is_left_out = child.barred or (node is self.root and node.visit_count % 2 == 1)
            return -math.inf if value <= -1.0 or is_left_out else value
        if child.key is not None:
            total, count = self.positions[child.key]
            value = node.sign * (total / count)
        if child.memory_count > 0.0:
            n, m = child.visit_count, child.memory_count
            weight = math.sqrt(self.equivalence / (3.0 * n + self.equivalence))
            if self.bias is not None:
                weight = m / (n + m + 4.0 * n * m * self.bias * self.bias)
            value = (1.0 - weight) * value + weight * node.sign * child.memory_value
        return value

    def simulate(self, rng: Rng) -> None:
        path, position = [self.root], self.position.copy()
        if self.replayed is not None and self.replayed[-1].proven:
            self.replayed = None
        replayed = self.replayed
        while not (path[-1].terminal or path[-1].proven):
            node, depth = path[-1], len(path) - 1
            if not node.children:
                if node.visit_count < self.expand_after or self.waits() or not self.expand(node, position):
                    break
                if self.all_children:
                    replayed = self.replayed = path.copy()
            if replayed is not None and depth + 1 < len(replayed):
                child = replayed[depth + 1]
            else:
                index = EXPAND
                if node.player == 2:
                    index = drawn([child.prior for child in node.children], rng)
                elif replayed is None:
                    index = self.selection(node, rng, self.q)
                if index == EXPAND or index >= node.num_visited:
                    path.append(self.enter(node, position, rng, index))
                    if replayed is not None and node.num_visited == len(node.children):
                        self.replayed = None
                    break
                child = node.children[index]
            path.append(child)
            position.play(child.action)
        leaf = path[-1]
        position.rolled = ()
        if self.recall is not None and not (leaf.terminal or leaf.proven):
            self.recall(path, position)
        value, times = self.evaluate(leaf, position, rng)
        if (units := getattr(self.backup, "units", None)) is not None:
            if units.learns:
                units.learn(self.root, path, value)
            value = units.scaled(value)
        for _ in range(min(times, self.budget - self.done)):
            self.finish(path, position, value)

    def finish(self, path: list[Node], position: Any, value: float) -> None:
        self.done += 1
        self.add(path, -1.0)
        self.backup(path, value)
        if self.remember is not None:
            self.remember(path, value)
        if self.amaf:
            self.learn_moves(path, position.rolled, value)
        if self.solver:
            for node, child in zip(reversed(path), [None, *reversed(path)], strict=False):
                self.prove(node)
                if not node.proven:
                    self.bar(node, child is not None and child.proven)
        self.add(path, 1.0)

    def add(self, nodes: list[Node], factor: float) -> None:
        for node in nodes:
            if node.key is not None:
                sums = self.positions.setdefault(node.key, [0.0, 0.0])
                sums[0] += factor * (node.visit_count * node.value)
                sums[1] += factor * node.visit_count

    @staticmethod
    def learn_moves(path: list[Node], rolled: Sequence[tuple[int, int]], value: float) -> None:
        """Children whose action their player was the first to play from the node on learn the value."""
        for depth, node in enumerate(path):
            later = [(child.action, parent.player) for parent, child in itertools.pairwise(path[depth:])] + [*rolled]
            first: dict[int, int] = {}
            for action, player in later:
                first.setdefault(action, player)
            for child in node.children if depth < len(path) - 1 else []:
                if first.get(child.action) == node.player:
                    child.amaf_returns.append(value)

    @staticmethod
    def prove(node: Node) -> None:
        """A node is worth its best proven move if that wins, or if all its legal moves are proven."""
        values = [node.sign * child.value for child in node.visited if child.proven]
        complete = len(values) == len(node.children) > 0
        if complete or max(values, default=-1.0) >= 1.0:
            node.proven, node.mean = True, node.sign * max(values)
            node.value = node.mean
        elif node.terminal:
            node.proven = True

    @staticmethod
    def bar(node: Node, was_proven: bool) -> None:
        """Proven children are left out while unproven ones have fewer than √N of the N visits."""
        if was_proven or node.bars:
            node.bars = sum(child.visit_count for child in node.visited if not child.proven) ** 2 < node.visit_count
            for child in node.visited:
                child.barred = child.proven and node.bars

    def waits(self) -> bool:
        return self.evaluator is not None and not (self.rollout_share == 1.0 and self.priors_left <= 0)

    def expand(self, node: Node, position: Any, weights: Sequence[float] | None = None) -> bool:
        actions = position.legal_actions()
        if self.num_nodes + self.num_actions > self.max_nodes:
            self.full = True
            return False
        if node.player == 2:
            by_action = dict(zip(actions, position.chance(), strict=True))
            weights = [by_action.get(action, 0.0) for action in range(max(actions) + 1)]
        elif weights is None and self.prior is not None and self.priors_left > 0:
            weights = self.prior(position)
            self.priors_left -= 1
        legal_weights = [1.0] * len(actions) if weights is None else [weights[action] for action in actions]
        node.has_priors = weights is not None and sum(legal_weights) > 0
        legal_weights = legal_weights if sum(legal_weights) > 0 else [1.0] * len(actions)
        priors = [float(np.float32(weight / sum(legal_weights))) for weight in legal_weights]
        children = [Node(action, prior) for action, prior in zip(actions, priors, strict=True)]
        node.children = sorted(children, key=lambda child: -child.prior)
        self.num_nodes += len(actions)
        return True

    def enter(self, node: Node, position: Any, rng: Rng, index: int) -> Node:
        first = node.num_visited
        unvisited = len(node.children) - first
        ordered = node.has_priors or (self.evaluator is not None and self.rollout_share < 1.0)
        if index != EXPAND or (unvisited > 1 and not ordered):
            drawn = first + rng.below(unvisited) if index == EXPAND else index
            node.children[first], node.children[drawn] = node.children[drawn], node.children[first]
        node.num_visited += 1
        child = node.children[first]
        position.play(child.action)
        child.player, child.terminal = position.to_play(), not position.legal_actions()
        child.reward = 0.0 if getattr(self.backup, "units", None) is None else position.reward()
        if self.transpositions and not child.terminal:
            child.key = position.key()
        if self.correction is not None and not child.terminal:
            before = None if node is self.root else node.action
            around = self.local_pattern(position, child.action) if self.local_pattern else None
            child.bucket = node.player, child.action, before, around
        return child

    def evaluate(self, leaf: Node, position: Any, rng: Rng) -> tuple[float, int]:
        """A leaf's value, and the simulations that it counts as."""
        if leaf.terminal or leaf.proven:
            return (leaf.value if leaf.proven else position.outcome()), 1
        if not self.waits() or (leaf is not self.root and leaf.visit_count + 1 < self.expand_after):
            return position.rollout(rng), 1
        value, weights = self.evaluator(position)
        if not leaf.children:
            self.priors_left -= self.expand(leaf, position, weights)
        value = leaf.sign * float(np.float32(value))
        if self.rollout_share == 1.0:
            return position.rollout(rng), 1
        if self.rollout_share > 0.0 and self.expand_after > 1:
            return value, max(1, round(self.expand_after * (1.0 - self.rollout_share) / self.rollout_share))
        if self.rollout_share > 0.0:
            value += self.rollout_share * (position.rollout(rng) - value)
        return value, 1


class PositionMemory:
    """A memory that keeps every position: `recall` and `remember` of a search, as docs/methods/memory.md has them.

    A stored position has features of length 1, the mean of the returns from it, and their number.
    """

    def __init__(self, features: Callable[[Any], np.ndarray], temperature: float, decay: float, units: Units):
        self.features, self.temperature, self.decay, self.units = features, temperature, decay, units
        self.entries: dict[str, list[Any]] = {}
        self.of_node: dict[int, list[Any]] = {}

    def answer(self, features: np.ndarray) -> tuple[float, float] | None:
        """Eq. 8: (V̂_M, N_M), or None."""
        kernels = [math.exp(float(features @ entry[0]) / self.temperature) for entry in self.entries.values()]
        weights = [kernel * entry[2] for kernel, entry in zip(kernels, self.entries.values(), strict=True)]
        if not sum(weights) > 0.0:
            return None
        value = sum(weight * entry[1] for weight, entry in zip(weights, self.entries.values(), strict=True))
        return value / sum(weights), sum(weights) / sum(kernels)

    def recall(self, path: list[Node], position: Any) -> None:
        features = self.features(position)
        if (answer := self.answer(features)) is not None:
            value, share = answer
            for node in reversed(path):
                value = value if node is path[0] else self.units.move(node, value)
                amount = max(share, 1.0)
                node.memory_count += amount
                node.memory_value += (value - node.memory_value) * amount / node.memory_count
                share /= self.decay
        self.of_node[id(path[-1])] = self.entries.setdefault(str(position), [features, 0.0, 0])

    def remember(self, path: list[Node], value: float) -> None:
        for node in reversed(path):
            if (entry := self.of_node.get(id(node))) is not None:
                entry[2] += 1
                entry[1] += (value - entry[1]) / entry[2]
            value = value if node is path[0] else self.units.move(node, value)


def expectimax(position: Any) -> float:
    """The value of a position in the game's units: both players play perfectly, and nature draws."""
    actions = position.legal_actions()
    if not actions:
        return position.outcome()
    values = []
    for action in actions:
        after = position.copy()
        after.play(action)
        factor = 1.0 if after.legal_actions() and after.to_play() == 2 else position.discount
        values.append(after.reward() + factor * expectimax(after))
    if position.to_play() == 2:
        weights = position.chance()
        return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)
    return min(values) if position.to_play() == 1 else max(values)
