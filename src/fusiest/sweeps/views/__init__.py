"""What a sweep found, for people.

`answers` says what became of each run; `best_designs` costs designs over all workloads; `sweep_page` is the page; `advice` says what to
change in one design.
"""
