"""Renders tables as Markdown: the paper's figures, ours, intervals and gaps; then every command, folded away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from salvit.tables import paper
from salvit.tables.commands import evaluation_of, failing_of, lines_of, training_of, ways_of
from salvit.tables.rows import NOT_AT_HAND, Block, Cell, Figure, Group, Line, Table, figure_of

Results = Mapping[str, Mapping[str, Any]]
NOT_RUN = "recipe ready, not run on this hardware"
NONE = "–"


def render_table(table: Table, results: Results, *, results_at: str = "../results") -> str:
    """A section of the page; ``results_at`` is where the page finds the result files."""
    results = with_suites(results)
    source = "Not in the paper" if table.source == "ours" else f"The paper's {table.source}"
    parts = [f'<a id="{table.name}"></a>\n\n## {table.title}\n\n*{source}.* {table.text}\n']
    for block in table.blocks:
        parts.append((f"### {block.title}\n\n" if block.title else "") + render_block(block, results))
    if missing := _data_not_at_hand(table, results):
        parts.append(f"*no data:* {'; '.join(missing)}.\n")
    parts.append(_commands(table, results, results_at))
    return "\n".join(parts)


def render_block(block: Block, results: Results) -> str:
    """One Markdown table."""
    lines = [
        f"| {' | '.join(['*the paper’s*, **ours**', *block.columns])} |",
        f"|---|{'---:|' * len(block.columns)}",
    ]
    baselines = _Baselines(block, results)
    for group in block.groups:
        lines += _group_lines(group, block.columns, results, baselines)
    return "\n".join(lines) + "\n" + _not_run(block, results)


def with_suites(results: Results) -> dict[str, Mapping[str, Any]]:
    """The results, and those that `salvit compare` keeps in one file, by the names that tables look for."""
    found = dict(results)
    for row in results.get("compared", {}).get("rows", ()):
        labels, result = row["labels"], row["result"]
        method = str(labels["method"]).replace("_", "-")
        name = f"compared-{method}-{result['data']}-{labels['unseen']}-{int(labels['shots'])}shot"
        found[name] = {**result, "file": "compared"}
    return found


class _Baselines:
    """What changes are told against: the paper's figures of the baseline group, and ours of the same family."""

    def __init__(self, block: Block, results: Results) -> None:
        self.paper: dict[str, float] = {}
        self.ours: dict[tuple[str, str], float] = {}
        for group in (group for group in block.groups if group.is_baseline):
            self.paper |= {column: figure.value for column, figure in group.paper.items()}
            for line in group.lines:
                found = {column: figure_of(cell, line.model, results) for column, cell in line.cells.items()}
                self.ours |= {(line.family, column): f.value for column, f in found.items() if f is not None}


def _group_lines(group: Group, columns: Sequence[str], results: Results, baselines: _Baselines) -> Iterator[str]:
    """The paper's line, then each of ours that was run, with its gap."""
    found = {line.label: _figures(line, results) for line in group.lines}
    missing = [line for line in group.lines if not found[line.label]]
    if group.paper:
        compared = {} if group.is_baseline else baselines.paper
        cells = [_text(group.paper.get(column), compared.get(column)) for column in columns]
        yield _row(f"*{group.label}*", cells)
    for line in group.lines:
        figures = found[line.label]
        if line in missing and group.paper:
            continue
        yield _row(f"**{line.label}**", [_our_cell(line, column, figures, group, baselines) for column in columns])
        if line.has_gap and any(column in group.paper for column in figures):
            yield _row("gap", [_gap(figures.get(column), group.paper.get(column)) for column in columns])


def _gap(ours: Figure | None, stated: Figure | None) -> str:
    return "" if ours is None or stated is None else signed(ours.value - stated.value, _digits(stated.value))


def _not_run(block: Block, results: Results) -> str:
    """Sentences on the lines that have no figure: those of one label together, and whose rows of the paper they are."""
    lines = [(line, group) for group in block.groups for line in group.lines]
    by_reason: dict[str, dict[str, list[str]]] = {}
    for line, group in lines:
        if not _figures(line, results):
            is_without = all(map(_is_without_data, line.cells.values()))
            reason = "Recipe ready, no data" if is_without else f"{NOT_RUN[0].upper()}{NOT_RUN[1:]}"
            by_reason.setdefault(reason, {}).setdefault(line.label, []).append(group.label)
    counts = Counter(line.label for line, _ in lines)
    sentences = []
    for reason, labels in by_reason.items():
        texts = [label + _rows_of(rows, len(rows) == counts[label]) for label, rows in labels.items()]
        sentences.append(f"\n*{reason}:* {'; '.join(texts)}.\n")
    return "".join(sentences)


def _rows_of(rows: Sequence[str], is_every: bool) -> str:
    """Of which rows of the paper a line was not run, in brackets; labels may hold commas, so semicolons part them."""
    if rows == [""]:
        return ""
    return " (every row)" if is_every and len(rows) > 1 else f" ({'; '.join(rows)})"


def _figures(line: Line, results: Results) -> dict[str, Figure]:
    found = {column: figure_of(cell, line.model, results) for column, cell in line.cells.items()}
    return {column: figure for column, figure in found.items() if figure is not None}


def _our_cell(line: Line, column: str, figures: dict[str, Figure], group: Group, baselines: _Baselines) -> str:
    if column not in figures:
        cell = line.cells.get(column)
        return "no data" if cell is not None and _is_without_data(cell) else NONE
    compared = None if group.is_baseline else baselines.ours.get((line.family, column))
    return _text(figures[column], compared, is_ours=True)


def _is_without_data(cell: Cell) -> bool:
    return any(ask.data in NOT_AT_HAND for ask in cell.asks)


def _data_not_at_hand(table: Table, results: Results) -> list[str]:
    """Sentences on data sets that the table's missing figures need."""
    asks = [(line, ask) for line in lines_of(table) for cell in line.cells.values() for ask in cell.asks]
    missing = {ask.data for line, ask in asks if ask.name_for(line.model.name) not in results}
    return [text for name, text in NOT_AT_HAND.items() if name in missing]


def _text(figure: Figure | None, compared: float | None = None, *, is_ours: bool = False) -> str:
    if figure is None:
        return NONE
    digits = _digits(figure.value)
    if not is_ours:
        return _papers_text(figure, compared, digits)
    text = f"**{paper.rounded(figure.value, digits)}**"
    if figure.spread is not None:
        text += f" ±{paper.rounded(figure.spread, digits)}"
    return text if compared is None else f"{text} ({signed(figure.value - compared, digits)})"


def _papers_text(figure: Figure, compared: float | None, digits: int) -> str:
    """The paper's figures are printed decimals, and so are their differences."""
    text = paper.rounded(figure.value, digits)
    if figure.spread is not None:
        text += f" ±{paper.rounded(figure.spread, digits)}"
    if compared is None:
        return text
    change = paper.rounded(figure.value - compared, digits)
    return f"{text} ({signed(float(change), digits)})"


def _digits(value: float) -> int:
    """Errors are shares of a picture, all else is in percent."""
    return 3 if 0 < abs(value) < 1 else 1


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign; one that rounds to nothing has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def _row(label: str, cells: Sequence[str]) -> str:
    return f"| {' | '.join([label, *cells])} |"


def _commands(table: Table, results: Results, results_at: str) -> str:
    """Every line's commands, folded away: of what was run the result's own, of the rest those that would be typed."""
    done, ready = [], []
    for line in {line.model.name: line for line in reversed(lines_of(table))}.values():
        runs = {name: results[name] for name in _names(table, line) if name in results}
        for name, result in runs.items():
            done += [f"- {_ran(name, result, results_at)}", "", *_code(str(result["command"]), "  "), ""]
        if not runs and line.model.recipe:
            ask = next(ask for cell in line.cells.values() for ask in cell.asks)
            ready += [f"# {_plain(line)}", training_of(line.model.on(ask.data), ask)]
    parts = ["<details><summary>Commands, episodes, result files</summary>", ""]
    if table.command:
        parts += [*_code(table.command), ""]
    elif table.blocks:
        parts += [f"All that is missing and meant for this hardware: `salvit tables {table.name} --run`.", ""]
    parts += ["Run:", "", *done] if done else []
    if ready and not table.command:
        parts += ["Ready, not run on this hardware (each for its first problem):", "", "```sh", *ready, "```", ""]
        parts += ["Then:", "", "```sh", *dict.fromkeys(_ways(table)), "```", ""]
    if failing := _still_to_fail(table, results):
        parts += ["With saliency that fails, train and evaluate:", "", "```sh", *failing, "```", ""]
    return "\n".join([*parts, "</details>", ""])


def _still_to_fail(table: Table, results: Results) -> list[str]:
    """Commands for models whose results with failing saliency are missing."""
    asks = [(line.model.name, ask) for line in lines_of(table) for cell in line.cells.values() for ask in cell.asks]
    missing = [name for name, ask in asks if ask.failure is not None and ask.name_for(name) not in results]
    return [failing_of(name) for name in dict.fromkeys(missing)]


def _ways(table: Table) -> Iterator[str]:
    for ask in ways_of(table):
        yield from evaluation_of(ask).split(" && ")


def _plain(line: Line) -> str:
    changes = f" with {', '.join(line.model.changes)}" if line.model.changes else ""
    return f"{line.label}: {line.model.recipe}{changes}"


def _names(table: Table, line: Line) -> list[str]:
    """All result files of a model that a table looks at."""
    same = [other for other in lines_of(table) if other.model == line.model]
    asks = [ask for other in same for cell in other.cells.values() for ask in cell.asks]
    return list(dict.fromkeys(ask.name_for(line.model.name) for ask in asks))


def _ran(name: str, result: Mapping[str, Any], results_at: str) -> str:
    episodes = " + ".join(f"{count:,} {kind}" for kind, count in result["episodes"].items())
    file = result.get("file", name)
    return f"[{name}]({results_at}/{file}.json): {episodes} episodes, seed {result['seed']}, {result['hardware']}"


def _code(command: str, indent: str = "") -> list[str]:
    return [f"{indent}```sh", *(f"{indent}{part}" for part in command.split(" && ")), f"{indent}```"]
