"""Lines as a person writes them: named rules, each exact, used only where that is shorter to read."""
