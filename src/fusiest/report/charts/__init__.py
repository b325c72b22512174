"""Charts: as plain data for the page, and as files for papers.

`chart` says what a chart is; `front`, `waterfall`, `roofline` and `funnel` make one each. `figures` draws charts with Matplotlib,
`graphs` graphs, with `layout`, `placing` of names, `ticks`, `colours` of names and the `palette`.
"""
