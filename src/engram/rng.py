"""Random numbers inside compiled code: xoroshiro128+ with its state in a 16-byte record.

Every stream starts from a seed that is passed as an argument; no code reads the clock. `derive_seed` gives different
uses different seeds, so that no two parts of a match share random numbers.

Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021 (constants 24, 16, 37);
seeding by splitmix64, as they advise.
"""

from __future__ import annotations

import hashlib

import numpy as np

from engram.native.jit import compiled

rng_dtype = np.dtype([("word", np.uint64, (2,))])

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2⁶⁴ divided by the golden ratio: it is odd, and its multiples spread evenly over 64 bits."""
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@compiled(inline=True)
def mix(word):
    """splitmix64's finaliser: a bijection of uint64 in which every output bit depends on all input bits."""
    word = (word ^ (word >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    return word ^ (word >> np.uint64(31))


@compiled
def seed_rng(rng, seed):
    """Initialises the generator record `rng` from any 64-bit seed."""
    start = np.uint64(seed) + GOLDEN
    rng.word[0] = mix(start)
    rng.word[1] = mix(start + GOLDEN)


@compiled
def seed_all(rngs, places, seeds):
    """Sets the generators at some places of an array from seeds (uint64), as `seed_rng` does."""
    for place, seed in zip(places, seeds):  # noqa: B905
        seed_rng(rngs[place], seed)


@compiled(inline=True)
def random_word(rng):
    """The next 64 random bits (the lowest are the weakest)."""
    a = rng.word[0]
    b = rng.word[1]
    result = a + b
    b ^= a
    rng.word[0] = ((a << np.uint64(24)) | (a >> np.uint64(40))) ^ b ^ (b << np.uint64(16))
    rng.word[1] = (b << np.uint64(37)) | (b >> np.uint64(27))
    return result


@compiled(inline=True)
def random_below(rng, bound):
    """A uint64, uniform on 0 … bound-1, for 1 ≤ bound < 2³²; its bias is below bound/2³²."""
    return ((random_word(rng) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)


@compiled(inline=True)
def random_float(rng):
    """A float64, uniform on [0, 1), with 53 random bits."""
    return np.float64(random_word(rng) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def new_rng(seed: int) -> np.ndarray:
    """A seeded generator as an array of one record; any Python integer is a valid seed."""
    rng = np.zeros(1, rng_dtype)
    seed_rng(rng[0], np.uint64(seed & 0xFFFFFFFFFFFFFFFF))
    return rng


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed that depends on all parts and their order; it is the same on every machine."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little") >> 1
