"""PyTorch on a GPU: recorded batches answer as the processor does. Runs where there is a GPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import engram  # noqa: E402
from engram.networks import torch_backend  # noqa: E402
from engram.networks.backend import FixedBatches  # noqa: E402
from engram.networks.by_name import NamedNetwork  # noqa: E402
from engram.networks.evaluator import NetworkEvaluator  # noqa: E402
from engram.networks.torch_backend import NetworkModule, TorchBackend  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
NETWORK = NamedNetwork("go9").network


def planes(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, (count, NETWORK.configuration.planes, 9, 9)).astype(np.float32)


def backend(device="cuda", layer="block2", **options):
    return TorchBackend(NetworkModule.of(NETWORK), device=device, layer=layer, **options)


@pytest.mark.parametrize(("precision", "bound"), [("float32", 5e-3), ("bfloat16", 0.1)])
@pytest.mark.parametrize("count", [1, 4, 64])
def test_a_gpu_answers_as_the_processor(precision, bound, count):
    gpu, processor = backend(precision=precision), backend("cpu", precision="float32")
    for seed in range(3):  # later calls replay the recording of the first
        answer, right = (part.forward(planes(count, seed)) for part in (gpu, processor))
        assert np.abs(answer.value - right.value).max() < bound
        assert np.abs(answer.policy - right.policy).max() < bound
        assert np.abs(answer.embedding - right.embedding).max() < bound * np.abs(right.embedding).max()


def test_a_recording_keeps_its_memory_to_itself():
    gpu, processor = backend(), backend("cpu", precision="float32")
    gpu.forward(planes(4))
    gpu.forward(planes(64))
    others = [torch.full((size,), 7.0, device="cuda") for size in (1024, 4096, 65_536) for _ in range(1000)]
    for count in (4, 64, 4):
        right = processor.forward(planes(count, 3)).policy
        assert np.abs(gpu.forward(planes(count, 3)).policy - right).max() < 0.1
    assert all(bool((other == 7.0).all()) for other in others)


def test_an_answer_stays_when_the_next_batch_comes():
    gpu = backend()
    first = gpu.forward(planes(8, 1))
    copies = [part.copy() for part in (first.value, first.policy, first.embedding)]
    gpu.forward(planes(8, 2))
    for part, copy in zip((first.value, first.policy, first.embedding), copies, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_sizes_beyond_the_recorded_ones_are_computed_too():
    gpu, processor = backend(), backend("cpu", precision="float32")
    for size in (*range(1, torch_backend.MOST_RECORDED + 3), 1):
        right = processor.forward(planes(size)).policy
        assert np.abs(gpu.forward(planes(size)).policy - right).max() < 0.1
    assert gpu.forward(planes(0)).value.shape == (0,)


def test_threads_record_and_replay_side_by_side():
    shared, alone, counts = backend(), backend(), (16, 8, 16, 8)
    expected = [alone.forward(planes(count, seed)).policy for seed, count in enumerate(counts)]

    def answers(seed):
        own = backend()
        return [gpu.forward(planes(counts[seed], seed)).policy for _ in range(20) for gpu in (shared, own)]

    with ThreadPoolExecutor(4) as pool:
        for policies, right in zip(pool.map(answers, range(4)), expected, strict=True):
            for policy in policies:
                np.testing.assert_array_equal(policy, right)


def test_a_search_with_a_gpu_repeats_and_two_groups_grow_the_same_trees():
    def evaluator(rules, batch):
        return NetworkEvaluator(FixedBatches(backend(layer=None), 16), rules)

    game, preset = engram.game("go:9"), engram.presets.puct(evaluator=evaluator)
    states = [game.play(game.initial_state(), action) for action in range(32)]
    runs = []
    for groups in (1, 2, 2):
        lockstep = engram.Lockstep(game, preset, 32, num_groups=groups)
        results = lockstep.run(states, engram.Limit(simulations=50), range(32))
        runs.append([(result.action, *result.visits) for result in results])
    assert runs[0] == runs[1] == runs[2]
