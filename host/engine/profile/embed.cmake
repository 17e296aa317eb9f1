# Writes OUTPUT, a C file with one string `profile_NAME` for every NAME.json in FILES.
set(text "#include \"host/engine/profile.h\"\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n"
    bytes "${bytes}")
  string(APPEND text "\nconst char profile_${name}[] = {\n${bytes}0};\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
