"""From files to trees of nodes that know their lines.

In: paths, names of library files, defines. Out: `yamlfile` nodes, which `spec.language.fields` reads into objects.
`loading` drives: `specfiles` finds files (`library` those that come with fusiest), `textfile` reads them, `template`
runs its Jinja within a `budget`, with `includes`; `yamlfile` parses. `foreign` recognizes other tools' files,
`resultfile` reads saved results, `origin` remembers where a spec came from.
"""
