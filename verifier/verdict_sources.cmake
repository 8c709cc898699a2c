# The sources on which verdicts depend, in verdict_sources: when one of them changes, records of proofs are stale
# (docs/decisions/068). The declarations of the operators of a rule are in the hash of its own record.
# Rooms of the verifier that are left out (check, derivation, equal, infer, claims) make no rule proved or refuted; a test sees that
# none of the rooms below includes one of them.
set(verdict_sources "")
foreach(name core/index/* verifier/* verifier/integer/* verifier/normal_form/* verifier/z3/* verifier/smt/* verifier/prove/*
        verifier/refute/* verifier/classify/* verifier/certificate/*
        # Index expressions, element types, scalar functions; from the text of a rule to its instances.
        core/base/integer core/base/work core/ir/derivative core/tensor/dtype core/ir/expr core/tensor/float16
        core/ir/functions core/ir/function_values core/ir/index_range core/ir/index_value core/ir/op
        core/tensor/random_bits core/ir/rewrite substitutions/instance/arg_eval
        substitutions/instance/binding_order substitutions/instance/compiled_rule
        substitutions/instance/instance substitutions/instance/instances
        substitutions/instance/symbolic_builder substitutions/language/number
        substitutions/language/operator_variables substitutions/language/rule
        substitutions/language/rule_expressions substitutions/language/rule_lexer
        substitutions/language/rule_names substitutions/language/rule_parser
        substitutions/language/rule_printer substitutions/language/rule_terms substitutions/language/siblings
        substitutions/language/stand_ins)
  set(stem ${PROJECT_SOURCE_DIR}/${name})
  file(GLOB found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${stem}.h ${stem}.cc ${stem}.def ${stem}.inc)
  if(NOT found)
    message(FATAL_ERROR "verifier/verdict_sources.cmake: found no source ${name}")
  endif()
  list(APPEND verdict_sources ${found})
endforeach()
list(SORT verdict_sources)
