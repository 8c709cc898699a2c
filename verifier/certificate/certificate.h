// Certificates: the proof of a rule as text that can be checked again without searching for it.
//
//   rewright certificate 3
//   prover 0123456789abcdef          which one (ProverHash)
//   spec 0123456789abcdef            hash of the law and of the meanings of the operators (SpecHash)
//   domain max_rank=6 max_perm_rank=4 max_broadcast_rank=4
//   class exact                      as it is measured (classify_rule.h)
//   instances 7
//   queries 3
//   law
//     rule ..                        as the rule file has it, without comments
//   instance 1 strategy 0 laws real  laws: `real` hold for infinities too, `finite` do not
//     | ..                           the instance: applications, types, conditions
//     fact: ..                       and so on: obligations, normal forms, changes of variables with their inverses,
//     query 89abcdef01234567: ..     witnesses, and the query that settles the obligation above it
//   query 89abcdef01234567 purpose shape logic QF_LIA expected unsat lines 12
//   (set-logic QF_LIA)               SMT-LIB 2
//   steps 1 lines 240                of instance 1, for a checker without the prover (step_writer.h)
//   context
//   seal 0123456789abcdef            hash of everything above
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "substitutions/instance/instance.h"
#include "substitutions/language/rule.h"
#include "verifier/integer/smt_query.h"

namespace rewright {

struct InstanceCertificate {
  std::string instance;  // PrintInstance
  int strategy = 0;
  bool finite_laws = false;
  std::vector<std::string> steps;
  std::vector<SmtQuery> queries;  // in the order in which the steps name them; may repeat
  std::string told;               // all that the algebra tells of the proof, as lines (step_writer.h)
};

struct Certificate {
  std::string law;  // PrintLaw
  uint64_t prover = 0;
  uint64_t spec_hash = 0;
  DomainLimits domain;
  RuleClass rule_class = RuleClass::kFiniteOnly;
  std::vector<InstanceCertificate> instances;  // all within the domain, in the order of ForEachInstance
};

std::string PrintCertificate(const Certificate& certificate);

// The name of a rule's certificate in a folder of certificates.
std::string CertificateFileName(const std::string& rule_name);

// The seal of a text without one, and of a certificate as it stands at its end; empty where there is none.
std::string SealOf(const std::string& text);
std::string SealAtEnd(const std::string& certificate);

}  // namespace rewright
