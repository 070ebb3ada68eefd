"""One folder for each paper, with all that only this paper has: card.yml, and modules whose EXPERIMENTS are measured for it.

A folder is found by being here. `fairfl_book.cards` reads the cards, `fairfl_book.experiments.catalogue` the experiments.
"""
