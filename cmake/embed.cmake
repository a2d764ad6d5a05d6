# cmake -DOUTPUT=embedded.c -DINPUTS=a.cu,b.cuh [-DTABLE=NAME] -P embed.cmake: the files as C arrays, and a table of them (src/cuda/embed.h),
# called sf_embedded_files unless TABLE says otherwise. Comments and the spaces before each line are left out: a third of the bytes. Lines keep
# their numbers.
if(NOT TABLE)
  set(TABLE sf_embedded_files)
endif()
string(REPLACE "," ";" inputs "${INPUTS}")
set(arrays "")
set(rows "")
set(number 0)
foreach(input IN LISTS inputs)
  get_filename_component(name "${input}" NAME)
  file(READ "${input}" text)
  # A comment of several lines becomes a comment on each.
  set(before "")
  while(NOT before STREQUAL text)
    set(before "${text}")
    string(REGEX REPLACE "/\\*([^*\n]|\\*+[^*/\n])*\\**\n" "\n/*" text "${text}")
  endwhile()
  string(REGEX REPLACE "[ \t]*/\\*([^*]|\\*+[^*/])*\\*+/" " " text "${text}")
  string(REGEX REPLACE "[ \t]*\n[ \t]*" "\n" text "${text}")
  string(HEX "${text}" bytes)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  # As many lines as the file has: some compilers fail on very long ones.
  string(REPLACE "0x0a," "0x0a,\n" bytes "${bytes}")
  string(APPEND arrays "static const unsigned char file_${number}[] = { /* ${name} */\n${bytes}0};\n\n")
  string(APPEND rows "        {\"${name}\", (const char *)file_${number}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUTPUT}.tmp" "/* Made by cmake/embed.cmake. */
#include \"cuda/embed.h\"

#include <stddef.h>

${arrays}extern const sf_embedded ${TABLE}[];
const sf_embedded ${TABLE}[] = {
${rows}        {NULL, NULL}};
")
file(RENAME "${OUTPUT}.tmp" "${OUTPUT}")
