#include "tools/program/help/completion.h"

#include <algorithm>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/program/help/help.h"

namespace rewright {
namespace {

struct FlagToComplete {
  std::vector<std::string> names;  // with their dashes
  std::string doc;
  bool takes_value = false;
  std::vector<std::string> choices;  // empty: any value, and files are offered
};

// The words of "cpu|cuda:N|onnxruntime|openvino" that stand for themselves.
std::vector<std::string> Choices(const std::string& value) {
  const std::vector<std::string> parts = absl::StrSplit(value, '|');
  std::vector<std::string> words;
  for (const std::string& part : parts) {
    if (std::none_of(part.begin(), part.end(), absl::ascii_isupper)) words.push_back(part);
  }
  return parts.size() > 1 ? words : std::vector<std::string>();
}

std::vector<FlagToComplete> Flags(const CLI::App& app) {
  std::vector<FlagToComplete> flags;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) continue;
    FlagToComplete flag;
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    flag.doc = option->get_description();
    const std::string value = ValueName(*option);
    flag.takes_value = !value.empty();
    flag.choices = Choices(value);
    flags.push_back(std::move(flag));
  }
  return flags;
}

const CLI::App& AppOf(const CLI::App& app, const Verb& verb) { return *app.get_subcommand(verb.name); }

std::string VerbNames(const std::vector<Verb>& verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  return absl::StrJoin(names, " ");
}

std::string BashScript(const CLI::App& app, const std::vector<Verb>& verbs) {
  std::string script = absl::StrCat(
      "# eval \"$(rewright completion bash)\"\n"
      "_rewright() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} words=\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"",
      VerbNames(verbs),
      " help completion --help --version --man\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case $verb:$before in\n"
      "    completion:*) words=\"",
      absl::StrJoin(kShells, " "), "\" ;;\n");
  std::string flags_of_verbs;
  for (const Verb& verb : verbs) {
    std::vector<std::string> names;
    for (const FlagToComplete& flag : Flags(AppOf(app, verb))) {
      names.insert(names.end(), flag.names.begin(), flag.names.end());
      if (flag.choices.empty()) continue;
      for (const std::string& name : flag.names) {
        absl::StrAppend(&script, "    ", verb.name, ":", name, ") words=\"", absl::StrJoin(flag.choices, " "),
                        "\" ;;\n");
      }
    }
    absl::StrAppend(&flags_of_verbs, "      ", verb.name, ") words=\"", absl::StrJoin(names, " "), "\" ;;\n");
  }
  return absl::StrCat(script,
                      "  esac\n"
                      "  if [ -z \"$words\" ] && [[ $word == -* ]]; then\n"
                      "    case $verb in\n",
                      flags_of_verbs,
                      "    esac\n"
                      "  fi\n"
                      "  if [ -n \"$words\" ]; then\n"
                      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                      "  else\n"
                      "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
                      "  fi\n"
                      "}\n"
                      "complete -o filenames -F _rewright rewright\n");
}

// Text within single quotes, with `special` characters of the place escaped.
std::string Quoted(std::string text, const std::vector<std::string>& special) {
  for (const std::string& character : special) text = absl::StrReplaceAll(text, {{character, "\\" + character}});
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string ZshFlag(const FlagToComplete& flag) {
  std::string lines;
  for (const std::string& name : flag.names) {
    const std::string value =
        flag.choices.empty() ? ":value:_files" : absl::StrCat(":value:(", absl::StrJoin(flag.choices, " "), ")");
    const std::string doc = Quoted(flag.doc, {"\\", "[", "]", ":"});
    absl::StrAppend(&lines, "        '*", name, "['", doc, "']", flag.takes_value ? value : "", "' \\\n");
  }
  return lines;
}

std::string ZshScript(const CLI::App& app, const std::vector<Verb>& verbs) {
  std::string script =
      "#compdef rewright\n"
      "# rewright completion zsh > a folder of $fpath/_rewright\n"
      "_rewright() {\n"
      "  local -a verbs=(\n";
  for (const Verb& verb : verbs) {
    absl::StrAppend(&script, "    ", Quoted(absl::StrCat(verb.name, ":", verb.summary), {}), "\n");
  }
  absl::StrAppend(&script,
                  "  )\n"
                  "  if (( CURRENT == 2 )); then\n"
                  "    _describe verb verbs\n"
                  "    return\n"
                  "  fi\n"
                  "  local verb=$words[2]\n"
                  "  shift words\n"
                  "  (( CURRENT-- ))\n"
                  "  case $verb in\n"
                  "    completion) _values shell ",
                  absl::StrJoin(kShells, " "), " ;;\n");
  for (const Verb& verb : verbs) {
    absl::StrAppend(&script, "    ", verb.name, ")\n      _arguments \\\n");
    for (const FlagToComplete& flag : Flags(AppOf(app, verb))) script += ZshFlag(flag);
    absl::StrAppend(&script, "        '*:file:_files' ;;\n");
  }
  return absl::StrCat(script,
                      "  esac\n"
                      "}\n"
                      "if [ \"$funcstack[1]\" = _rewright ]; then _rewright \"$@\"; "
                      "else compdef _rewright rewright; fi\n");
}

std::string FishScript(const CLI::App& app, const std::vector<Verb>& verbs) {
  std::string script = absl::StrCat(
      "# rewright completion fish > ~/.config/fish/completions/rewright.fish\n"
      "complete -c rewright -n __fish_use_subcommand -f -a completion -d 'Completions of a shell'\n"
      "complete -c rewright -n '__fish_seen_subcommand_from completion' -f -a '",
      absl::StrJoin(kShells, " "), "'\n");
  for (const Verb& verb : verbs) {
    absl::StrAppend(&script, "complete -c rewright -n __fish_use_subcommand -f -a ", verb.name, " -d ",
                    Quoted(verb.summary, {"\\"}), "\n");
    for (const FlagToComplete& flag : Flags(AppOf(app, verb))) {
      absl::StrAppend(&script, "complete -c rewright -n '__fish_seen_subcommand_from ", verb.name, "'");
      for (const std::string& name : flag.names) {
        absl::StrAppend(&script, name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1));
      }
      if (!flag.choices.empty()) {
        absl::StrAppend(&script, " -x -a '", absl::StrJoin(flag.choices, " "), "'");
      } else if (flag.takes_value) {
        script += " -r";
      }
      absl::StrAppend(&script, " -d ", Quoted(flag.doc, {"\\"}), "\n");
    }
  }
  return script;
}

}  // namespace

std::string CompletionScript(const CLI::App& app, const std::vector<Verb>& verbs, const std::string& shell) {
  if (shell == "bash") return BashScript(app, verbs);
  return shell == "zsh" ? ZshScript(app, verbs) : FishScript(app, verbs);
}

}  // namespace rewright
