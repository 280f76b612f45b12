package split

import "math/bits"

// Generator is numpy.random.default_rng(seed): PCG64, that is PCG XSL RR
// 128/64 of O'Neill (2014), seeded by numpy's SeedSequence. It is not safe for
// concurrent use.
type Generator struct {
	hi, lo       uint64 // state
	incHi, incLo uint64
	half         uint32 // second half of the last 64-bit output, not yet given
	hasHalf      bool
}

// NewGenerator returns the generator numpy.random.default_rng(seed).
func NewGenerator(seed uint64) *Generator {
	words := seedSequence(seed)
	// The sequence is shifted by one and made odd, as the PCG authors do it.
	g := &Generator{incHi: words[2]<<1 | words[3]>>63, incLo: words[3]<<1 | 1}
	g.step()
	var carry uint64
	g.lo, carry = bits.Add64(g.lo, words[1], 0)
	g.hi, _ = bits.Add64(g.hi, words[0], carry)
	g.step()
	return g
}

// step moves the 128-bit state: state·0x2360ed051fc65da44385df649fccf645 + inc.
func (g *Generator) step() {
	const mulHi, mulLo = 0x2360ed051fc65da4, 0x4385df649fccf645
	hi, lo := bits.Mul64(g.lo, mulLo)
	hi += g.hi*mulLo + g.lo*mulHi
	var carry uint64
	g.lo, carry = bits.Add64(lo, g.incLo, 0)
	g.hi, _ = bits.Add64(hi, g.incHi, carry)
}

// Uint64 returns the next 64-bit output. It leaves a half that [Generator.Uint32]
// holds back where it is, as numpy does.
func (g *Generator) Uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.hi^g.lo, -int(g.hi>>58))
}

// Uint32 returns the next 32-bit output: of each 64-bit output first the low
// half, then the high half.
func (g *Generator) Uint32() uint32 {
	if g.hasHalf {
		g.hasHalf = false
		return g.half
	}
	v := g.Uint64()
	g.half, g.hasHalf = uint32(v>>32), true
	return uint32(v)
}

// IntN returns Generator.integers(0, n), uniform in [0, n), by the
// multiply-and-shift method of Lemire (2019) on 32-bit outputs. n must be in
// [1, 2³²); n = 1 takes no output.
func (g *Generator) IntN(n int) int {
	if n < 1 || n > 1<<32-1 {
		panic("split: IntN needs 1 ≤ n < 2³²")
	}
	if n == 1 {
		return 0
	}
	bound := uint32(n)
	m := uint64(g.Uint32()) * uint64(bound)
	if uint32(m) < bound {
		reject := -bound % bound
		for uint32(m) < reject {
			m = uint64(g.Uint32()) * uint64(bound)
		}
	}
	return int(m >> 32)
}

// Shuffle permutes x in place as Generator.shuffle does on a one-dimensional
// array. Unlike [Generator.IntN] it draws by masked rejection.
func (g *Generator) Shuffle(x []int) { shuffle(x, g.Uint32) }

// Permutation returns Generator.permutation(n): 0 … n−1 shuffled.
func (g *Generator) Permutation(n int) []int {
	x := identity(n)
	g.Shuffle(x)
	return x
}

// seedSequence returns numpy.random.SeedSequence(seed).generate_state(4,
// uint64): a pool of four 32-bit words, stirred by the hash of O'Neill's
// seed_seq_fe.
func seedSequence(seed uint64) [4]uint64 {
	const (
		xor   = 0x43b0d7e5
		mul   = 0x931e8875
		xorB  = 0x8b51f9dd
		mulB  = 0x58f38ded
		left  = 0xca01f9dd
		right = 0x4973f715
	)
	hash := func(state *uint32, factor uint32) func(uint32) uint32 {
		return func(v uint32) uint32 {
			v ^= *state
			*state *= factor
			v *= *state
			return v ^ v>>16
		}
	}
	var pool [4]uint32
	entropy := [4]uint32{uint32(seed), uint32(seed >> 32)}
	state := uint32(xor)
	in := hash(&state, mul)
	for i := range pool {
		pool[i] = in(entropy[i])
	}
	for from := range pool {
		for to := range pool {
			if from != to {
				v := left*pool[to] - right*in(pool[from])
				pool[to] = v ^ v>>16
			}
		}
	}
	state = xorB
	out := hash(&state, mulB)
	var words [4]uint64
	for i := range words {
		low := out(pool[2*i%4])
		words[i] = uint64(out(pool[(2*i+1)%4]))<<32 | uint64(low)
	}
	return words
}
