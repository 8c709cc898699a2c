// Machine code for loops of tiles, made while the program runs.
#pragma once

#include <string>

namespace rewright::cpu {

using TileLoop = void (*)(void* const* addresses, long count);

// Returns whether the plugin's file exists; does not open it.
bool HasLoopCompiler();

// Compiles a module of LLVM's text and gives the function of that name, which stays for as long as the program runs;
// the same text is compiled once. Null where the plugin librewright_jit.so is not there, or the text is refused. The
// compiler (some 20 ms to load) is opened at the first call. `error`, where it is not null, gets the reason of a null
// result. Thread-safe.
TileLoop CompileLoop(const std::string& name, const std::string& text, std::string* error = nullptr);

// The border of the plugin: `error` gets the reason of a null result.
inline constexpr char kCompileLoop[] = "rewright_compile_loop";
using CompileLoopFunction = void* (*)(const char* name, const char* text, char* error, unsigned long error_bytes);

}  // namespace rewright::cpu
