#!/usr/bin/env python3
"""analyze.py BUILD [TOOL | FILE...]: clang-tidy, cppcheck and gcc's -fanalyzer (tidy, cppcheck, gcc), or the tools named, over the C sources of the library, the
command line and the Python package, or the files named. Any finding fails.

BUILD is a folder that CMake has configured with CMAKE_EXPORT_COMPILE_COMMANDS: each file is looked at with its own flags. Which checks are made, and why
others are not, is in .clang-tidy and in CPPCHECK and GCC below. A finding that is wrong is silenced where it stands, with its reason. Kernels (isa_*.c, reals_*.c,
map_*.c) are left out: each is a hundred instances of one text, for which the tools take minutes and gigabytes; guard pages and sanitizers look at them.
"""
import concurrent.futures, json, os, re, shlex, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOBS = len(os.sched_getaffinity(0))
LOOKED_AT = re.compile(r"^(src|cli|python)/(?!.*/(isa|reals|map)_\w+\.c$).*\.c$")

# Not style and unusedFunction: opinions, and a library's functions are used by others.
CPPCHECK = ["--library=python", "--enable=warning,performance,portability", "--inline-suppr", "--quiet", "--error-exitcode=1", "--std=c11",
            "--template={file}:{line}: {id}: {message}"]
# Not what gcc 12 says of pointers that may be NULL and of what is not initialised: where one function tests a pointer, it takes that to be NULL in all others that have it
# from there (nodes of expressions: sf_ir_argument), and it does not follow a count or a flag that says what has been set. clang-tidy and cppcheck look for both.
GCC = ["-fanalyzer", "-O1", "-Werror", "-c", "-o", "/dev/null", "-Wno-analyzer-null-dereference", "-Wno-analyzer-possible-null-dereference",
       "-Wno-analyzer-possible-null-argument", "-Wno-analyzer-use-of-uninitialized-value"]


def commands(build):
    """Each file that is looked at, with its folder and its compiler's arguments; a file that is compiled twice, once."""
    found = {}
    for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
        name = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if LOOKED_AT.match(name):
            found.setdefault(name, (entry["directory"], shlex.split(entry["command"])))
    return dict(sorted(found.items()))


def language(arguments):
    """Macros, folders, and the standard."""
    kept, take = [], False
    for argument in arguments:
        take = take or argument.startswith(("-D", "-I", "-isystem", "-std="))
        if take:
            kept.append(argument)
        take = argument == "-isystem"
    return kept


def tidy(name, folder, arguments):
    return ["clang-tidy", "--quiet", "--warnings-as-errors=*", os.path.join(ROOT, name), "--", *language(arguments)]


def cppcheck(name, folder, arguments):
    return ["cppcheck", *CPPCHECK, *[a for a in language(arguments) if a.startswith(("-D", "-I"))], os.path.join(ROOT, name)]


def gcc(name, folder, arguments):
    return ["gcc", *language(arguments), *GCC, os.path.join(ROOT, name)]


def look(tool, name, folder, arguments):
    """What the tool says, or nothing where it is content, and its seconds."""
    start = time.time()
    done = subprocess.run(tool(name, folder, arguments), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout if done.returncode else "", time.time() - start


def main():
    known, given = {"tidy": tidy, "cppcheck": cppcheck, "gcc": gcc}, sys.argv[2:]
    tools = [known[g] for g in given if g in known] or list(known.values())
    named = [g for g in given if g not in known]
    files, failed = {name: how for name, how in commands(sys.argv[1]).items() if not named or name in named}, 0
    if not files or any(name not in files for name in named):
        sys.exit(f"analyze: {sys.argv[1]} does not compile {' '.join(n for n in named if n not in files) or 'anything'}")
    for tool in tools:
        bad = seconds = 0
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for name, (said, took) in zip(files, pool.map(lambda item: look(tool, item[0], *item[1]), files.items())):
                bad, seconds = bad + bool(said), seconds + took
                if said:
                    print(f"---- {tool.__name__}: {name}\n{said}", flush=True)
        print(f"analyze: {tool.__name__}: {len(files)} files, {bad} with findings, {seconds:.0f} s", flush=True)
        failed += bad
    sys.exit(failed > 0)


main()
