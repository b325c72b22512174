"""What stands around a generated function: `main`, which reads and writes raw files or makes its own inputs, and a Makefile."""

from __future__ import annotations

from collections.abc import Sequence

from fusiest.code.lowering.statements import Array, Program

_MAIN = """\
// Runs the function of mapping.c.
//   ./mapping          makes its own inputs, and prints the sum of each result
//   ./mapping FOLDER   reads FOLDER/NAME.raw for each input, and writes FOLDER/NAME.raw for each result:
//                      numbers of the type `value`, the last rank first
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef double value;
{prototypes}
struct tensor {{ const char *name; size_t size; value *values; }};

static void fail(const char *what, const char *file) {{
  fprintf(stderr, "%s: %s\\n", file, what);
  exit(1);
}}

static void transfer(const char *folder, struct tensor *t, int out) {{
  char file[4096];
  if (snprintf(file, sizeof file, "%s/%s.raw", folder, t->name) >= (int)sizeof file) fail("the name is too long", folder);
  FILE *raw = fopen(file, out ? "wb" : "rb");
  if (!raw) fail("cannot be opened", file);
  size_t done = out ? fwrite(t->values, sizeof(value), t->size, raw) : fread(t->values, sizeof(value), t->size, raw);
  if (done != t->size || (!out && fgetc(raw) != EOF)) fail("is not as large as the tensor", file);
  if (fclose(raw)) fail("cannot be written", file);
}}

int main(int argc, char **argv) {{
  struct tensor in[] = {{{inputs}}}, out[] = {{{outputs}}};
  const int ins = {ins}, outs = {outs};
  for (int i = 0; i < ins + outs; i++) {{
    struct tensor *t = i < ins ? &in[i] : &out[i - ins];
    t->values = calloc(t->size, sizeof(value));
    if (!t->values) fail("no memory for it", t->name);
    if (i >= ins) continue;
    if (argc > 1) transfer(argv[1], t, 0);
    else for (size_t j = 0; j < t->size; j++) t->values[j] = (unsigned)(j * 2654435761u + i * 40503u) >> 13 & 3;
  }}
  clock_t begin = clock();
  {call}
  fprintf(stderr, "%.3f s\\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
#ifdef PRINTS
  PRINTS;
#else
  for (int i = 0; i < outs; i++) {{
    value sum = 0;
    if (argc > 1) transfer(argv[1], &out[i], 1);
    else for (size_t j = 0; j < out[i].size; j++) sum += out[i].values[j];
    if (argc == 1) printf("%s: sum %.17g\\n", out[i].name, (double)sum);
  }}
#endif
  for (int i = 0; i < ins + outs; i++) free(i < ins ? in[i].values : out[i - ins].values);
  return 0;
}}
"""

_MAKEFILE = """\
CC ?= cc
CFLAGS ?= -O2 -Wall
DATA ?=

mapping: mapping.c main.c
\t$(CC) -std=c99 $(CFLAGS) -o $@ mapping.c main.c -lm

run: mapping
\t./mapping $(DATA)
{more}
clean:
\trm -f mapping mapping_count mapping_trace

.PHONY: run count trace clean
"""
_COUNT = """
mapping_count: mapping_count.c main.c
\t@$(CC) -std=c99 $(CFLAGS) '-DPRINTS=print_counts()' -o $@ mapping_count.c main.c -lm

# What `fusiest evaluate --json` says, counted.
count: mapping_count
\t@./mapping_count $(DATA)
"""
_TRACE = """
mapping_trace: mapping_trace.c main.c
\t$(CC) -std=c99 $(CFLAGS) '-DPRINTS=(void)0' -o $@ mapping_trace.c main.c -lm

# Reads and writes of {memory}, as {style} takes them.
trace: mapping_trace
\t{{ ./mapping_trace $(DATA) || : > trace.failed; }} | gzip > trace.gz
\t@test ! -e trace.failed || {{ rm -f trace.failed trace.gz; exit 1; }}
"""


def main_text(program: Program) -> str:
    """`main.c`."""
    arrays = (*program.inputs, *program.outputs)
    types = [f"{'const ' if array in program.inputs else ''}value {_sizes(array)}" for array in arrays]
    prototypes = f"void mapping({', '.join(types)});\nvoid print_counts(void);"
    values = [f"{'in' if a in program.inputs else 'out'}[{_place(program, a)}].values" for a in arrays]
    return _MAIN.format(
        prototypes=prototypes,
        inputs=_tensors(program.inputs),
        outputs=_tensors(program.outputs),
        ins=len(program.inputs),
        outs=len(program.outputs),
        call=f"mapping({', '.join(f'(void *){value}' for value in values)});",
    )


def _place(program: Program, array: Array) -> int:
    return (program.inputs if array in program.inputs else program.outputs).index(array)


def _tensors(arrays: Sequence[Array]) -> str:
    return ", ".join(f'{{"{array.tensor}", {array.elements}u, NULL}}' for array in arrays)


def _sizes(array: Array) -> str:
    return "".join(f"[{size}]" for size in array.shape) or "[1]"


def makefile(count: bool, trace: tuple[str, str] | None) -> str:
    """The Makefile. `trace`: the memory that is traced, and how."""
    more = _COUNT if count else ""
    if trace is not None:
        more += _TRACE.format(memory=trace[0], style=trace[1])
    return _MAKEFILE.format(more=more)


def dispatch(program: Program, parts: int) -> str:
    """`run`, which calls a part with an array for each argument."""
    count = len((*program.inputs, *program.parameters, *program.outputs))
    arguments = ", ".join(f"(void *)t[{i}]" for i in range(count))
    calls = [f"    case {i}: part_{i}({arguments}); break;" for i in range(parts)]
    return "\n".join(["void run(int part, value **t) {", "  switch (part) {", *calls, "  }", "}"]) + "\n"
