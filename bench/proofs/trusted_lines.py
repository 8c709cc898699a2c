#!/usr/bin/env python3
"""Lines that must be right for "proved" to be true, the operators' declarations and the solvers aside.

    bench/proofs/trusted_lines.py

Counts where the prover is believed, where its steps are checked as well (`rewright check --rules`), and where the
certificate of a proof is checked with its steps (`rewright check DIR`). A file counts whole, with its comments. A
source of the verifier that stands in no list below is an error, so that a new one is thought about.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Modules that read the text of a rule. They need not be right where the law is printed again and compared with the
# text.
PARSING = "rule_lexer rule_expressions rule_parser".split()
# From a rule that was read to the instances that are proved.
INSTANCES = """rule rule_printer rule_terms rule_names compiled_rule symbolic_builder arg_eval instances siblings
operator_variables""".split()
# Parts of an instance: data, the binding of declarations, operators that stand for families.
INSTANCE_DATA = "instance number stand_ins".split()
# From the rule that is proved to the graph that is changed.
APPLICATION = """binding_order match_binding match_plan match_scope match_search matcher node_signatures discrimination_net
rule_binding rule_set rule_symmetry applier lowering sibling_groups""".split()
# The obligations, terms as data.
OBLIGATIONS = "attempt replay term polynomial guard rational give_up implication_oracle".split()
# The search for a proof: which attempts are made, which instances are taken for others, in what time. A certificate
# names the attempt and holds every instance.
SEARCH = "prove_instance prove_rule merged_axes watchdog".split()
# Modules that derive a proof from a certificate, whose law they read and enumerate themselves.
DERIVING = "certificate_check rule_reader rule_values rule_graph rule_instances".split()
# Modules that reason about sums and indices: checked for all sizes.
REASONING = "one_term eliminate align inverse context nonnegativity".split()
# The composition of declarations, products and functions of elements, the difference of both sides and joint queries:
# computed at several sizes. The cancelling of terms of the difference is checked for all sizes.
COMPUTED = """elements elements_internal reductions normal_form product_laws function_laws real_functions extrema
cases products signs monotone substitute prover encode solver""".split()
# Modules that check those steps: questions, values, and the laws of sums; the listener tells them.
CHECKING = """step_checker step_checker_values sizes_at step_queries step_bounds index_sum step_values proof_observer index_observer law concrete query_solver
smt_query variables""".split()
# Modules that read the steps which a certificate tells, and see that they suffice: rewright_check.
READING = "checked_steps certificate_text certificate_steps step_reader proof_check declared_claims".split()
# Nothing that these say makes a rule proved.
OTHER = """witness certificate certify step_writer classify_rule condition_family cvc5_query_solver counterexample equal equal_by_claims
equal_result equal_rounding custom_op_cut fold_claims proved_folds gradient_claims infer integer_search joint_models numeric_instance part_weights
prove_region value_distribution region rounded_decisions rounding_laws bounded_check sharding_laws signatures distinguishing_assignments
known_equal prove_rounding rule_classifier claim_sizes device_terms equal_ranks placement_search rank_claims rank_fault rank_plan
rank_program reciprocals legal_indices""".split()


def lines(folder, names):
    return sum(len(path.read_text().splitlines())
               for name in names for path in sorted((ROOT / folder).rglob(f"{name}.*")) if path.suffix in (".h", ".cc"))


def main():
    known = set(OBLIGATIONS + SEARCH + DERIVING + REASONING + COMPUTED + CHECKING + READING + OTHER)
    found = {path.stem for path in (ROOT / "verifier").rglob("*") if path.suffix in (".h", ".cc")}
    if missing := sorted(found - known):
        sys.exit(f"verifier/: found {', '.join(missing)}, expected every source in a list of {sys.argv[0]}")
    if gone := sorted(known - found):
        sys.exit(f"{sys.argv[0]}: found {', '.join(gone)} in a list, expected a source of verifier/")
    parts = {
        "reading of a rule": lines("substitutions", PARSING),
        "a rule to its instances": lines("substitutions", INSTANCES),
        "instances as data": lines("substitutions", INSTANCE_DATA),
        "instances to graphs that are changed": lines("substitutions", APPLICATION),
        "obligations, terms as data": lines("verifier", OBLIGATIONS),
        "search for a proof": lines("verifier", SEARCH),
        "derivation from a certificate": lines("verifier", DERIVING),
        "sums and indices": lines("verifier", REASONING),
        "composition, functions, joint queries": lines("verifier", COMPUTED),
        "checking of steps": lines("verifier", CHECKING),
        "steps that a certificate tells, and that they suffice": lines("verifier", READING),
    }
    for name, count in parts.items():
        print(f"{count:6}  {name}")
    parsing, instances, data, application, obligations, search, deriving, reasoning, computed, checking, reading = parts.values()
    followed = data + obligations
    proof = parsing + instances + followed + search
    print(f"{proof + application + reasoning + computed:6}  must be right where the prover is believed")
    print(f"{proof + application + computed + checking:6}  must be right where its steps are checked, at all sizes")
    print(f"{proof + application + checking:6}  must be right where its steps are checked, at the sizes that are computed")
    print(f"{proof + checking:6}  the same, for the rule alone (not for its application)")
    print(f"{followed + deriving + checking:6}  the same, where the steps of a certificate are checked")
    terms = lines("verifier", "term polynomial guard rational give_up".split())
    enumerating = lines("verifier", [name for name in DERIVING if name != "certificate_check"])
    print(f"{data + terms + enumerating + checking + reading:6}  the same, where a certificate is checked without the prover")


main()
