package split

// Bootstrap returns the rows of
//
//	numpy.random.default_rng(seed).integers(0, n, (replicates, n))
//
// Row i holds the indices of the test rows on which replicate i is scored: n
// draws with replacement from [0, n). All rows together are one stream, so row
// i does not depend on how many replicates follow. n = 0 gives empty rows.
func Bootstrap(seed uint64, n, replicates int) [][]int {
	g := NewGenerator(seed)
	rows := make([][]int, replicates)
	for i := range rows {
		rows[i] = g.draw(n)
	}
	return rows
}

// BootstrapRow returns row i of [Bootstrap] and keeps no other. Time grows with
// i·n, since a rejected draw may shift the stream anywhere before row i.
func BootstrapRow(seed uint64, n, i int) []int {
	g := NewGenerator(seed)
	for range i * n {
		g.IntN(n)
	}
	return g.draw(n)
}

func (g *Generator) draw(n int) []int {
	row := make([]int, n)
	for j := range row {
		row[j] = g.IntN(n)
	}
	return row
}
