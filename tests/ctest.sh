#!/bin/sh
# ctest.sh ARGUMENTS...: ctest in this folder; then a line for each test that could not run, with the reason it gave, for the
# table at the end of `make test`.
set -u
ctest --output-on-failure --no-tests=error "$@"
result=$?
# A test that is skipped says so in a line that begins with SKIPPED.
awk '/^[0-9]+\/[0-9]+ Test: / { name = $3 } /^SKIPPED/ { sub(/^SKIPPED:? */, ""); print "SKIPPED " name ": " $0 }' \
        Testing/Temporary/LastTest.log
exit $result
