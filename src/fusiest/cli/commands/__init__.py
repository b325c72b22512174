"""The commands of the program, a module each. A command reads its arguments, calls one package, and prints.

In: the command line, parsed by `fusiest.cli.app`. Out: results on stdout, files, an exit status.
Specs and networks: `new`, `show`, `import_network`, `components`. One design: `map`, `evaluate`, `report`, `compare`, `advise`, `code`.
Many designs: `sweep`, `store`. The paper: `reproduce`.
"""
