package recipes

func unerSV() Recipe {
	return unerRecipe("sv", 6026, "UNER_Swedish-Talbanken", "dbb692085267da83a35d1e1d2c111671b3c7c46b",
		[2]string{"sv_talbanken-ud-train.iob2", "4ee74f493e06a790df56641b9e0c496282e0782a"},
		[2]string{"sv_talbanken-ud-dev.iob2", "f75ff2331e964d695f469384169b68bb6f32019d"},
		[2]string{"sv_talbanken-ud-test.iob2", "fed27118efe99d29773c8556b2bdb58713a3c16d"},
	)
}
