package recipes

func unerNB() Recipe {
	return unerRecipe("nb", 20044, "UNER_Norwegian-NDT", "39a2e37f20fd86e2b4c3a13eb8385cb335dcdc60",
		[2]string{"nob_norne-ud-train.iob2", ""},
		[2]string{"nob_norne-ud-dev.iob2", "4ba234321450a733158f6297f3d24b9e663eb8c4"},
		[2]string{"nob_norne-ud-test.iob2", "2eb70ded39c0a33da73d0a4e55696eef7988ed3a"},
	)
}
