package recipes

func unerDA() Recipe {
	return unerRecipe("da", 5512, "UNER_Danish-DDT", "983c4cdc09f8ece6069d2b692b60dc4b3649ec6e",
		[2]string{"da_ddt-ud-train.iob2", "462257517e822ab3621ba3225ed1aaa66b1408df"},
		[2]string{"da_ddt-ud-dev.iob2", "af60507897843451435a0cd0b9d5313d04d2f7ce"},
		[2]string{"da_ddt-ud-test.iob2", "eac840a2cad35bd68f8d6c40119424cb19e4b7fa"},
	)
}
