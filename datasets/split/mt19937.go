package split

import "math/bits"

const (
	mtSize   = 624
	mtMiddle = 397
)

// RandomState is numpy.random.RandomState: the Mersenne Twister MT19937 of
// Matsumoto and Nishimura (1998). It is not safe for concurrent use.
type RandomState struct {
	state [mtSize]uint32
	next  int
}

// NewRandomState returns the generator numpy.random.RandomState(seed), seeded
// by Knuth's linear congruence (init_genrand of the 2002 reference code).
func NewRandomState(seed uint32) *RandomState {
	r := &RandomState{next: mtSize}
	r.state[0] = seed
	for i := 1; i < mtSize; i++ {
		prev := r.state[i-1]
		r.state[i] = 1812433253*(prev^prev>>30) + uint32(i)
	}
	return r
}

// Uint32 returns the next 32-bit output.
func (r *RandomState) Uint32() uint32 {
	if r.next == mtSize {
		r.refill()
	}
	y := r.state[r.next]
	r.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// float64 is RandomState.random_sample(): 53 random bits in [0, 1).
func (r *RandomState) float64() float64 {
	a, b := r.Uint32()>>5, r.Uint32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}

func (r *RandomState) refill() {
	for i := range r.state {
		y := r.state[i]&0x80000000 | r.state[(i+1)%mtSize]&0x7fffffff
		z := y >> 1
		if y&1 == 1 {
			z ^= 0x9908b0df
		}
		r.state[i] = r.state[(i+mtMiddle)%mtSize] ^ z
	}
	r.next = 0
}

// Shuffle permutes x in place as RandomState.shuffle does.
func (r *RandomState) Shuffle(x []int) { shuffle(x, r.Uint32) }

// Permutation returns RandomState.permutation(n): 0 … n−1 shuffled.
func (r *RandomState) Permutation(n int) []int {
	x := identity(n)
	r.Shuffle(x)
	return x
}

// choose returns k of x, in the order of RandomState.choice(x, k,
// replace=False): the first k of a permutation of all of x. k must be in
// [0, len(x)].
func (r *RandomState) choose(x []int, k int) []int {
	out := make([]int, k)
	for i, p := range r.Permutation(len(x))[:k] {
		out[i] = x[p]
	}
	return out
}

// shuffle is the shuffle of both generators: for i from len(x)−1 down to 1, x[i]
// and x[j] change places, j uniform in [0, i] by masked rejection of 32-bit
// outputs. len(x) must be below 2³².
func shuffle(x []int, next func() uint32) {
	for i := len(x) - 1; i > 0; i-- {
		mask := uint32(1)<<bits.Len32(uint32(i)) - 1
		j := next() & mask
		for j > uint32(i) {
			j = next() & mask
		}
		x[i], x[j] = x[j], x[i]
	}
}

func identity(n int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = i
	}
	return x
}
