"""What MkDocs asks us for: pages that are made from the sources, and links between them.

    index.md, architecture.md, contributing.md, changelog.md   the files of the repository's root
    results/               what bench/ says of itself and of its results
    reference/c.md         every declaration of include/scanfold.h, with its comment
    reference/python.md    every public function of the package, with its signature and docstring
    reference/command.md   what `scanfold help` prints
    pages in docs/         taken as they are

A link to a file that has no page (a source file) keeps its text and is no link.
"""
import importlib
import inspect
import os
import posixpath
import re
import subprocess
import sys
import textwrap

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECTION = re.compile(r"/\* -{20,}\n \* ([^\n]*)\n(.*?)\* -{20,} \*/", re.S)
ROOT_PAGES = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md",
              "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
ROOT_PAGES.update({"bench/README.md": "results/how.md", "bench/results/gpu.md": "results/gpu.md",
                   "bench/results/gpu_odd.md": "results/gpu_odd.md",
                   "bench/results/gpu_applied.md": "results/gpu_applied.md",
                   "bench/results/python.md": "results/python.md"})
PAGES = dict({"include/scanfold.h": "reference/c.md"}, **ROOT_PAGES)


def read(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


# --------------------------------------------------------------------------------------------------
# The C header
# --------------------------------------------------------------------------------------------------
def prose(comment):
    """The text of a comment: indented lines stay as they are, the others flow."""
    lines, code = [], False
    for line in comment.splitlines():
        line = re.sub(r"^ ?\*( |$)", "", line.rstrip())
        indented = line.startswith("  ") and (code or not lines or not lines[-1].strip())
        if line.strip():
            if indented != code:
                if code:
                    lines.append("```")
                else:
                    lines += ["", "```c"]
                lines += [] if indented else [""]
                code = indented
            if not code:
                line = re.sub(r"([_*<>])", r"\\\1", line)
        lines.append(line)
    while code and lines and not lines[-1].strip():
        lines.pop()
    return "\n".join(lines + (["```"] if code else [])).strip()


def declarations(text):
    """Chunks between blank lines, each (comment, code); the guards and macros of the preprocessor
    that have no comment are left out."""
    for chunk in re.split(r"\n\s*\n(?! \*)", text):
        match = re.match(r"\s*/\*(?!-)(.*?)\*/[ \t]*\n(.*)", chunk, re.S)
        comment, code = match.groups() if match else ("", chunk)
        if "SF_API" in code or re.search(r"\b(struct|enum)\b", code) or (comment and code.strip()):
            yield prose(comment), code.strip("\n")


def c_reference():
    text = read("include", "scanfold.h")
    head, _, rest = text.partition("#ifndef SCANFOLD_H")
    opening = re.search(r"/\*\n(.*?)\*/", head, re.S).group(1)
    pieces = ["# The C header", "Made from `include/scanfold.h`.", prose(opening)]
    marks = list(SECTION.finditer(rest))
    for mark, following in zip(marks, marks[1:] + [None]):
        pieces += [f"## {mark.group(1)}", prose(mark.group(2))]
        body = rest[mark.end():following.start() if following else len(rest)]
        for comment, code in declarations(body):
            names = re.findall(r"\b(sf_\w+)\(", code) if "SF_API" in code else \
                re.findall(r"^} (sf_\w+);", code, re.M)
            if names:
                pieces.append("### " + ", ".join(f"`{name}`" for name in dict.fromkeys(names)))
            pieces += [comment, f"```c\n{code}\n```"]
    return "\n\n".join(piece for piece in pieces if piece) + "\n"


# --------------------------------------------------------------------------------------------------
# The Python package and the command
# --------------------------------------------------------------------------------------------------
ARGUMENT = re.compile(r"(\w+(?:, \w+)*) {2,}(\S.*)")


def escaped(text):
    return re.sub(r"([*<>]|__)", lambda found: "".join("\\" + one for one in found[0]), text)


# `make docs` has a copy whose kernels are quick to build; those beside the sources may be the ones that somebody measures.
PACKAGE = os.path.abspath(os.environ.get("SCANFOLD_PACKAGE", os.path.join(ROOT, "python")))


def docstring(text):
    """A docstring as Markdown: examples are code, arguments a list, the rest flows."""
    out, code, listed = [], False, False
    for line in inspect.cleandoc(text).splitlines():
        if line.startswith(">>>") and not code:
            out += ["", "```pycon"]
            code = True
        if code and not line.strip():
            out += ["```", ""]
            code = False
        argument = None if code else ARGUMENT.fullmatch(line)
        if argument:
            names = ", ".join(f"`{name}`" for name in argument[1].split(", "))
            out += ([] if listed else [""]) + [f"- {names}: {escaped(argument[2])}"]
        elif listed and line.startswith("  "):
            out[-1] += " " + escaped(line.strip())
            continue
        else:
            out.append(line if code else escaped(line))
        listed = bool(argument)
    return "\n".join(out + (["```"] if code else []))


def signature_of(name, thing):
    """A call with all arguments, in lines that fit on a page."""
    return "\n    ".join(textwrap.wrap(f"{name}{inspect.signature(thing)}", 76))


def python_reference():
    sys.path.insert(0, PACKAGE)
    pieces = ["# The Python functions", "Made from the docstrings, which `help(scanfold.cumsum)` shows as well."]
    for module_name in ("scanfold", "scanfold.torch", "scanfold.distributed", "scanfold.jax"):
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            if module_name == "scanfold":
                raise SystemExit(f"docs: the package cannot be imported ({error}); build it with "
                                 "cmake -DSCANFOLD_PYTHON=ON") from error
            print(f"docs: the Python reference has no {module_name}: {error}", file=sys.stderr)
            continue
        pieces += [f"## {module_name}", docstring(module.__doc__ or "")]
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            try:
                signature = signature_of(f"{module_name}.{name}", thing)
            except (TypeError, ValueError):
                continue  # a constant
            pieces += [f"### {name} {{#{module_name}.{name}}}", f"```python\n{signature}\n```",
                       docstring(inspect.getdoc(thing) or "")]
    return "\n\n".join(piece for piece in pieces if piece) + "\n"


def command_reference():
    sys.path.insert(0, PACKAGE)
    program = os.environ.get("SCANFOLD_CLI") or \
        importlib.import_module("scanfold.__main__").find_program()
    pieces = ["# The command line", "Made from `scanfold help`; the manual page is `man scanfold`."]
    if program is None:
        raise SystemExit("docs: the command scanfold is not built; name it in SCANFOLD_CLI")
    def explained(*command):
        text = subprocess.run([program, "help", *command], capture_output=True, text=True, check=True).stdout
        return f"```text\n{text.rstrip()}\n```"
    overview = explained()
    commands = re.findall(r"^  (\w+) ", overview.partition("examples:")[0], re.M)
    pieces.append(overview)
    for command in commands[:-1]:  # the last is help itself
        text = explained(command)
        if text not in pieces:  # sum and fold have one text
            pieces += [f"## scanfold {command}", text]
    return "\n\n".join(pieces) + "\n"


# --------------------------------------------------------------------------------------------------
# Pages and links
# --------------------------------------------------------------------------------------------------
def relinked(text, folder, page):
    """Links of a file in `folder` of the repository, for the page `page` of the site."""
    def replace(match):
        label, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        if re.match(r"[a-z]+:", target) or not target:
            return match.group(0)
        file = posixpath.normpath(posixpath.join(folder, target))
        if file in PAGES:
            new = PAGES[file]
        elif file.startswith("docs/") and os.path.isfile(os.path.join(ROOT, file)):
            new = file[len("docs/"):]
        elif os.path.exists(os.path.join(ROOT, file)):
            return f"{label[1:-1]} (`{file}`)" if label[1:-1].strip("`") != file else f"`{file}`"
        else:
            return match.group(0)  # broken: MkDocs says so
        return f"{label}({posixpath.relpath(new, posixpath.dirname(page) or '.')}{anchor})"
    text = re.sub(r"(?<!!)(\[[^\]\n]*\])\(([^)#\s]*)(#[^)\s]*)?\)", replace, text)
    text = re.sub(r'((?:src|srcset)=")docs/', r"\1", text)
    # The reader of a site can choose dark or light against the system; a <picture> knows the system only.
    return re.sub(r'<picture>\s*<source [^>]*srcset="([^"]*)">\s*<img alt="([^"]*)" src="([^"]*)">\s*</picture>',
                  r'<div class="wide"><img alt="\2" src="\3#only-light"><img alt="\2" src="\1#only-dark"></div>', text)


def on_files(files, config):
    made = {page: relinked(read(source), posixpath.dirname(source), page)
            for source, page in ROOT_PAGES.items()}
    made["reference/c.md"] = c_reference()
    made["reference/python.md"] = python_reference()
    made["reference/command.md"] = command_reference()
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    if page.file.generated_by:
        return markdown
    return relinked(markdown, posixpath.join("docs", posixpath.dirname(page.file.src_uri)),
                    page.file.src_uri)


def on_post_page(output, page, config):
    """The theme's offline plugin fetches a script from a CDN; ours does the same work."""
    up = "../" * page.url.count("/")
    return re.sub(r'<script src="https://unpkg.com/iframe-worker/shim"></script>',
                  f'<script src="{up}pictures/worker.js"></script>', output)


def on_post_template(output_content, template_name, config):
    return re.sub(r'<script src="https://unpkg.com/iframe-worker/shim"></script>', "",
                  output_content)
