"""Tables as HTML that looks alike on a page, in Lab and on a phone, with the style that each brings along."""

from __future__ import annotations

import html
from dataclasses import dataclass

STYLE = """<style>
.fairfl-scroll{overflow-x:auto;max-width:100%}
.fairfl-scroll table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.72em;
color:inherit;margin:0}
.fairfl-scroll th,.fairfl-scroll td{padding:.2em .35em!important;text-align:right;white-space:nowrap;color:inherit;
border-bottom:1px solid rgba(128,128,128,.35);scroll-margin-top:5rem}
.fairfl-scroll th[scope=row],.fairfl-scroll td.fairfl-text{text-align:left}
.fairfl-scroll td.fairfl-text{white-space:normal;min-width:12em;overflow-wrap:anywhere}
.fairfl-scroll td.fairfl-verdict{text-align:left;white-space:normal;min-width:7em}
.fairfl-scroll th[colspan]{text-align:center}
.fairfl-scroll thead th{white-space:normal}
.fairfl-scroll caption{text-align:left;caption-side:top;color:inherit}
.fairfl-scroll small{font-size:1em;opacity:.8}
.fairfl-scroll td a{color:inherit;text-decoration:underline dotted;text-underline-offset:.2em}
.fairfl-scroll td:target{outline:2px solid currentColor}
.fairfl-printed{opacity:.8}
.fairfl-legend{font-size:.85em;color:inherit}
.fairfl-legend span{padding:.1em .4em;margin-right:.3em;display:inline-block}
.fairfl-agrees,.fairfl-confirmed,.fairfl-holds{background:rgba(46,160,67,.25)!important}
.fairfl-differs,.fairfl-reversed,.fairfl-does-not-hold{background:rgba(248,81,73,.25)!important}
.fairfl-no-effect{background:rgba(210,153,34,.25)!important}
.fairfl-cannot-tell{background:rgba(56,139,253,.14)!important}
.fairfl-not-testable,.fairfl-holds-by-construction{background:rgba(128,128,128,.2)!important}
.fairfl-not-yet-measured{outline:1px dashed rgba(128,128,128,.6)}
.fairfl-lines th:first-child,.fairfl-lines th:last-child{text-align:left}
@media (max-width:40rem){.fairfl-lines thead{display:none}.fairfl-lines,.fairfl-lines :is(caption,tbody){display:block}
.fairfl-lines tr{display:grid;grid-template-columns:1fr 1fr;padding:.4em 0;border-bottom:2px solid rgba(128,128,128,.35)}
.fairfl-lines td{border:0!important;text-align:left!important;white-space:normal!important}
.fairfl-lines td:first-child,.fairfl-lines td:nth-child(6),.fairfl-lines td:nth-child(7){grid-column:1/-1}
.fairfl-lines td:nth-child(2)::before{content:"printed "}.fairfl-lines td:nth-child(3)::before{content:"ours "}
.fairfl-lines td:nth-child(4)::before{content:"runs "}.fairfl-lines td:nth-child(5)::before{content:"margin "}}
</style>"""


@dataclass(frozen=True)
class View:
    """A table for notebooks: `_repr_html_` for the page, `str` for the terminal and for comparing outputs."""

    markup: str
    text: str

    def _repr_html_(self) -> str:
        return self.markup

    def __repr__(self) -> str:
        return self.text


def table(title: str, rows: str, legend: str, text: str, layout: str = "") -> View:
    """A captioned table that scrolls by itself, from the HTML of its rows and of the line below it.

    text : the same for the terminal. layout : a further class of the table.
    """
    markup = (
        f'{STYLE}<div class="fairfl-scroll" tabindex="0" role="region" aria-label="{html.escape(title)}">'
        f'<table class="dataframe {layout}"><caption>{html.escape(title)}</caption>{rows}</table></div>'
        f'<p class="fairfl-legend">{legend}</p>'
    )
    return View(markup, text)


def css(verdict: str) -> str:
    """The class that gives a verdict its colour."""
    return "fairfl-" + verdict.replace(" ", "-")
