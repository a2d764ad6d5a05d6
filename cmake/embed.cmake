# cmake -DOUTPUT=embedded.c -DINPUTS=a.cu,b.cuh [-DTABLE=NAME] -P embed.cmake: the files as C arrays, and a table of them (src/cuda/embed.h),
# called sf_embedded_files unless TABLE says otherwise.
if(NOT TABLE)
  set(TABLE sf_embedded_files)
endif()
string(REPLACE "," ";" inputs "${INPUTS}")
set(arrays "")
set(rows "")
set(number 0)
foreach(input IN LISTS inputs)
  get_filename_component(name "${input}" NAME)
  file(READ "${input}" bytes HEX)
  # Twenty-four bytes in a line: some compilers fail on very long lines.
  string(REPEAT "[0-9a-f]" 48 line)
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
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
