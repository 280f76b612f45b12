# The commands of the README, and the long tests that are not part of them.

.PHONY: soak
# Needs root and a Docker engine: starts engines of its own, and kills them.
soak:
	BENCH_TEST_SOAK=1 BENCH_TEST_KILLS=50 BENCH_TEST_REQUIRE=docker go test ./cmd/bench -run 'Survives|TestTwoSweepsOfOneHome|TestKilledRun' -v -timeout 2h
