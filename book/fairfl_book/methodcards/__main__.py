"""Writes the page of all methods: `python -m fairfl_book.methodcards`."""

from __future__ import annotations

from fairfl_book import methodcards
from fairfl_lite import store

if __name__ == "__main__":
    store.write(methodcards.PAGE, methodcards.page())
