#!/usr/bin/env python3
"""Lines that must be right for "proved" to be true, the operators' declarations and the solvers aside.

    bench/trusted_lines.py

Two counts: where the prover is believed, and where its steps are checked as well (`rewright check`). A file counts
whole, with its comments. A source of the verifier that stands in no list below is an error, so that a new one is
thought about.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# From the text of a rule to the instances that are proved.
INSTANCES = """rule rule_lexer rule_expressions rule_parser rule_printer rule_terms rule_names compiled_rule binding_order
symbolic_builder arg_eval instances instance number siblings""".split()
# From the rule that is proved to the graph that is changed.
APPLICATION = """match_binding match_plan match_scope match_search matcher node_signatures rule_net rule_binding rule_set
rule_symmetry applier lowering sibling_groups""".split()
# The obligations, the composition of declarations, terms as data, how terms are paired, joint queries.
OBLIGATIONS = """verifier attempt prove_rule merged_axes elements elements_internal reductions term polynomial guard rational
give_up prover encode encode_functions solver watchdog smt_query algebra""".split()
# What reasons about terms and indices.
REASONING = """algebra_internal simplify eliminate factors functions real_functions maxima conditions products signs increasing
align inverse context decide print""".split()
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
    known = set(OBLIGATIONS + REASONING + CHECKING + OTHER)
    found = {path.stem for path in (ROOT / "verifier").iterdir() if path.suffix in (".h", ".cc")}
    if missing := sorted(found - known):
        sys.exit(f"verifier/: found {', '.join(missing)}, expected every source in a list of {sys.argv[0]}")
    if gone := sorted(known - found):
        sys.exit(f"{sys.argv[0]}: found {', '.join(gone)} in a list, expected a source of verifier/")
    parts = {
        "text of a rule to its instances": lines("substitutions", INSTANCES),
        "instances to graphs that are changed": lines("substitutions", APPLICATION),
        "obligations, composition, joint queries": lines("verifier", OBLIGATIONS),
        "reasoning about terms and indices": lines("verifier", REASONING),
        "checking of steps": lines("verifier", CHECKING),
    }
    for name, count in parts.items():
        print(f"{count:6}  {name}")
    first, second, third, reasoning, checking = parts.values()
    print(f"{first + second + third + reasoning:6}  must be right where the prover is believed")
    print(f"{first + second + third + checking:6}  must be right where its steps are checked")
    print(f"{first + third + checking:6}  the same, for the rule alone (not for its application)")


main()
