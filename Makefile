# The commands of the README, and the long tests that are not part of them.

.PHONY: soak
# Needs root, a Docker engine and the programs of Slurm: starts engines and a Slurm of its own, and kills them.
soak:
	BENCH_TEST_SOAK=1 BENCH_TEST_KILLS=50 BENCH_TEST_REQUIRE=docker,slurm go test ./cmd/bench -run 'Survives|TestTwoSweepsOfOneHome|TestKilledRun' -v -timeout 2h
