"""How large all is."""

WIDTH, HEADS, LAYERS, VOCABULARY, TOKENS, BATCH = 64, 4, 2, 256, 64, 4
