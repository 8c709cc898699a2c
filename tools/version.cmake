# Writes OUT with the commit of the sources, at each build; the file changes only where its text does.
execute_process(COMMAND git -C ${SOURCES} describe --always --dirty --abbrev=8 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "inline constexpr char kCommit[] = \"${commit}\";\n" @ONLY)
