"""agents: the questions of a program (a model's agent) -> small answers, over the Model Context Protocol. Nothing is written."""
