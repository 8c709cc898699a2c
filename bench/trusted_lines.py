#!/usr/bin/env python3
"""Lines that must be right for "proved" to be true, the operators' declarations and the solvers aside.

    bench/trusted_lines.py

Counts where the prover is believed, and where its steps are checked as well (`rewright check`). A file counts
whole, with its comments. A source of the verifier that stands in no list below is an error, so that a new one is
thought about.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# From the text of a rule to the instances that are proved.
INSTANCES = """rule rule_lexer rule_expressions rule_parser rule_printer rule_terms rule_names compiled_rule binding_order
symbolic_builder arg_eval instances instance number siblings operator_variables""".split()
# From the rule that is proved to the graph that is changed.
APPLICATION = """match_binding match_plan match_scope match_search matcher node_signatures rule_net rule_binding rule_set
rule_symmetry applier lowering sibling_groups""".split()
# The obligations, terms as data, how terms are paired, joint queries.
OBLIGATIONS = """verifier attempt prove_rule merged_axes term polynomial guard rational give_up prover encode
encode_functions solver watchdog smt_query""".split()
# What reasons about sums and indices: checked for all sizes.
REASONING = "simplify eliminate align inverse context decide print".split()
# The composition of declarations, products and functions of elements: computed on both sides at several sizes.
COMPUTED = """elements elements_internal reductions algebra algebra_internal factors functions real_functions maxima
conditions products signs increasing""".split()
# What checks those steps: questions, values, and the laws of sums; the listener tells them.
CHECKING = "step_checker computed_steps step_claims step_values step_listener concrete query_solver".split()
# Nothing that these say makes a rule proved.
OTHER = """certificate classify_rule condition_family counterexample equal equal_by_claims equal_result
foreign_cut gradient_claims infer integer_search joint_models numeric_instance part_weights prove_region random_leaves region
rounded_decisions second_derivation sharding_laws signatures telling_draws known_equal""".split()


def lines(folder, names):
    return sum(len(path.read_text().splitlines())
               for name in names for path in sorted((ROOT / folder).glob(f"{name}.*")) if path.suffix in (".h", ".cc"))


def main():
    known = set(OBLIGATIONS + REASONING + COMPUTED + CHECKING + OTHER)
    found = {path.stem for path in (ROOT / "verifier").iterdir() if path.suffix in (".h", ".cc")}
    if missing := sorted(found - known):
        sys.exit(f"verifier/: found {', '.join(missing)}, expected every source in a list of {sys.argv[0]}")
    if gone := sorted(known - found):
        sys.exit(f"{sys.argv[0]}: found {', '.join(gone)} in a list, expected a source of verifier/")
    parts = {
        "text of a rule to its instances": lines("substitutions", INSTANCES),
        "instances to graphs that are changed": lines("substitutions", APPLICATION),
        "obligations, terms as data, joint queries": lines("verifier", OBLIGATIONS),
        "sums and indices": lines("verifier", REASONING),
        "composition and functions": lines("verifier", COMPUTED),
        "checking of steps": lines("verifier", CHECKING),
    }
    for name, count in parts.items():
        print(f"{count:6}  {name}")
    instances, application, obligations, reasoning, computed, checking = parts.values()
    proof = instances + obligations
    print(f"{proof + application + reasoning + computed:6}  must be right where the prover is believed")
    print(f"{proof + application + computed + checking:6}  must be right where its steps are checked, at all sizes")
    print(f"{proof + application + checking:6}  must be right where its steps are checked, at the sizes that are computed")
    print(f"{proof + checking:6}  the same, for the rule alone (not for its application)")


main()
