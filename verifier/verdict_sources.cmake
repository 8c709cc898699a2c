# The sources on which verdicts depend, in verdict_sources: when one of them changes, records of proofs are stale
# (docs/decisions/068). What a rule is about, the declarations of its operators, is in the hash of its own record.
file(GLOB verdict_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/verifier/*.cc
     ${PROJECT_SOURCE_DIR}/verifier/*.h ${PROJECT_SOURCE_DIR}/core/index/*.cc ${PROJECT_SOURCE_DIR}/core/index/*.h)
# Nothing that these say makes a rule proved or refuted; a test sees that none of the others includes one.
list(FILTER verdict_sources EXCLUDE REGEX
     "^verifier/(certificate_check|computed_steps|condition_family|cvc5_solver|equal|equal_by_claims|equal_result|equal_rounding|foreign_cut|gradient_claims|infer|joint_models|known_equal|law_graph|law_instances|law_reader|law_values|part_weights|prove_region|query_solver|region|second_derivation|sharding_laws|signatures|step_checker|step_claims|step_values|telling_draws)\\.")
# Index expressions, element types, scalar functions; from the text of a rule to its instances.
foreach(name core/base/integer core/ir/derivative core/ir/dtype core/ir/expr core/ir/float16
        core/ir/functions core/ir/function_values core/ir/index_range core/ir/index_value core/ir/op core/ir/random_bits
        core/ir/rewrite substitutions/arg_eval substitutions/binding_order substitutions/compiled_rule
        substitutions/instance substitutions/instances substitutions/number substitutions/operator_variables substitutions/rule
        substitutions/rule_expressions substitutions/rule_lexer substitutions/rule_names substitutions/rule_parser
        substitutions/rule_printer substitutions/rule_terms substitutions/siblings substitutions/stand_ins substitutions/symbolic_builder)
  file(GLOB found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${name}.h
       ${PROJECT_SOURCE_DIR}/${name}.cc ${PROJECT_SOURCE_DIR}/${name}.def ${PROJECT_SOURCE_DIR}/${name}.inc)
  if(NOT found)
    message(FATAL_ERROR "verifier/verdict_sources.cmake: found no source ${name}")
  endif()
  list(APPEND verdict_sources ${found})
endforeach()
list(SORT verdict_sources)
