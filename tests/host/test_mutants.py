# SPDX-License-Identifier: GPL-2.0-only
"""Deliberate breaks of the core, one at a time: each must make the unit test named beside it fail.
A mutant whose text is no longer in the source is an error: the list follows the code."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
ALT, INSN = "src/alt/alternative.c", "src/alt/insn.c"
POKE, JUMP, CPU = "src/alt/text-patching.c", "src/alt/jump_label.c", "src/cpu/features.c"
STATS, COMPARE, SCREEN = "src/bench/stats.c", "src/report/compare.c", "src/report/screen.c"

PMU = "src/cpu/pmu.c"

# name, source, what stands there, what the mutant says, the unit that must fail
MUTANTS = [
    ("swapped_flag", ALT, "return has != !!(a->flags & ALT_FLAG_NOT);",
     "return has == !!(a->flags & ALT_FLAG_NOT);", "test_alternative"),
    ("first_entry_wins", ALT, "if (applies(a, m)) {", "if (!winner && applies(a, m)) {",
     "test_alternative"),
    ("replacement_one_short", ALT, "memcpy(p->after, entry_repl(a), a->replacementlen);",
     "memcpy(p->after, entry_repl(a), a->replacementlen - 1);", "test_alternative"),
    ("oversized_by_one", ALT, "if (a->replacementlen > p->len)",
     "if (a->replacementlen > p->len + 1)", "test_alternative"),
    ("nothing_relocated", ALT,
     "err = alt_relocate(p->after, a->replacementlen, entry_repl(a), p->addr);", "err = 0;",
     "test_alt_fuzz"),
    ("rip_operand_not_moved", ALT, "else if (insn.disp_at)", "else if (0)", "test_alt_fuzz"),
    ("displacement_ends_the_instruction", ALT, "next = at + insn.length;",
     "next = at + (insn.disp_at ? insn.disp_at + 4 : insn.length);", "test_alternative"),
    ("end_is_outside", ALT, "if (target >= 0 && target <= (s64)len)",
     "if (target >= 0 && target < (s64)len)", "test_alternative"),
    ("range_unchecked", ALT, "if (size == 1 ? value != (s8)value : value != rel)", "if (0)",
     "test_alternative"),
    ("shrunk_one_too_far", ALT, "if (rel != (s8)rel)", "if (rel != (s8)rel && rel != 128)",
     "test_alternative"),
    ("filler_128_near", ALT, "if (len < 128) {", "if (len < 130) {", "test_alternative"),
    ("nop_over_branch_target", ALT, "if (target[at]) {", "if (0) {", "test_alternative"),
    ("old_bytes_unverified", ALT, "if (!text_holds(p, p->before)) {", "if (0) {",
     "test_alternative"),
    ("stale_read_back", ALT, "if (!text_holds(p, p->after)) {", "if (0) {", "test_alternative"),
    ("lock_inverted", ALT, "p->after[0] = up ? 0x3e : 0xf0;", "p->after[0] = up ? 0xf0 : 0x3e;",
     "test_alternative"),
    ("statement_unchecked", ALT, "return len > 0;", "return true;", "test_alternative"),
    ("pause_is_nop", INSN, "return !insn->rep && (insn->length == 1",
     "return (insn->length == 1", "test_alternative"),
    ("immediate_off_by_one", INSN, "c->at += p->opsize && !(p->rex & 8) ? 2 : 4;",
     "c->at += p->opsize && !(p->rex & 8) ? 2 : 3;", "test_insn"),
    ("sib_forgotten", INSN, "if (mod == 0 && (sib & 7) == 5)", "if (0 && sib)", "test_insn"),
    ("no_breakpoint", POKE, "step_int3, step_tail, step_first};",
     "step_tail, step_tail, step_first};", "test_jump_label"),
    ("tail_and_first_swapped", POKE, "step_int3, step_tail, step_first};",
     "step_int3, step_first, step_tail};", "test_jump_label"),
    ("no_sync_after_breakpoint", POKE, "if (!e)\n\t\t\te = ops->sync();",
     "if (!e && s != 0)\n\t\t\te = ops->sync();", "test_jump_label"),
    ("no_sync_after_tail", POKE, "if (!e)\n\t\t\te = ops->sync();",
     "if (!e && s != 1)\n\t\t\te = ops->sync();", "test_jump_label"),
    ("no_sync_at_the_end", POKE, "if (!e)\n\t\t\te = ops->sync();",
     "if (!e && s != 2)\n\t\t\te = ops->sync();", "test_jump_label"),
    ("jump_not_emulated", POKE, "POKE_LEN + (u64)(s64)rel;", "POKE_LEN;", "test_jump_label"),
    ("foreign_breakpoint_taken", POKE, "else if (memcmp(text, nop5, POKE_LEN))", "else if (0)",
     "test_jump_label"),
    ("flip_unverified", JUMP, "if (verify(e, !enabled))", "if (0)", "test_jump_label"),
    ("use_before_init", JUMP, "if (!initialised || broken) {", "if (broken) {",
     "test_jump_label"),
    ("enable_counts", JUMP, "return key->enabled > 0 ? 0 : set_count(key, 1);",
     "return set_count(key, key->enabled + 1);", "test_jump_label"),
    ("fast_strings_believed", CPU, "|| (misc & 1))", "|| 1)", "test_features"),
    ("hint_gates_kvm", CPU, "on = m->hv_features & KVM_FEATURE_STEAL_TIME;",
     "on = (m->hv_features & KVM_FEATURE_STEAL_TIME) && !m->hv_hints;", "test_features"),
    ("bit_31_ignored", CPU, "if (!m->features[X86_FEATURE_HYPERVISOR]) {", "if (0) {",
     "test_features"),
    ("maximum_ignored", CPU, "out->eax >= leaf && ", "", "test_features"),
    ("thaw", CPU, "if (m->frozen)\n", "if (0)\n", "test_features"),
    ("median_is_next", STATS, "s->p50 = stats_percentile(sorted, s->samples, 500);",
     "s->p50 = stats_percentile(sorted, s->samples, 520);", "test_stats"),
    ("disturbed_counts", STATS, "\t\tif (s->mark[i])\n\t\t\ts->disturbed++;",
     "\t\tif (0)\n\t\t\ts->disturbed++;", "test_stats"),
    ("neighbour_always_forgiven", STATS, "s->shared = stats_unmarked(s) < least;",
     "s->shared = least > 0;", "test_stats"),
    ("neighbour_forgives_all", STATS, "s->mark[i] &= (u8)~STATS_MARK_NEIGHBOUR;",
     "s->mark[i] = 0;", "test_stats"),
    ("drift_is_no_noise", STATS, "return max_of(interval, apart(first, second));",
     "return first ? interval : second;", "test_stats"),
    ("sort_leaves_the_last", STATS, "for (unsigned end = count; end-- > 1;) {",
     "for (unsigned end = count; end-- > 2;) {", "test_stats"),
    ("noise_is_no_excuse", COMPARE, "else if (within(r->change, r->noise))", "else if (0)",
     "test_compare"),
    ("threshold_ignored", COMPARE, "else if (within(r->change, (s64)options.threshold * 100))",
     "else if (0)", "test_compare"),
    ("control_never_moves", COMPARE, "return control && magnitude", "return 0 && magnitude",
     "test_compare"),
    ("copied_table_believed", COMPARE, "return timed >= 4;", "return timed > 400;",
     "test_compare"),
    ("emulated_time_judged", COMPARE, "if (timed && (emulated(&old) || emulated(&new)))",
     "if (timed && emulated(&old) && emulated(&new))", "test_compare"),
    ("shared_core_judged", COMPARE, "if (timed && (r->old->shared || r->new->shared))",
     "if (timed && r->old->shared)", "test_compare"),
    ("worse_is_better", COMPARE, "(r->change > 0) == more_is_better", "(r->change < 0) == more_is_better",
     "test_compare"),
    ("exhibits_lose_their_place", SCREEN, "if (part_of(f) != p)", "if (p && part_of(f) != p)",
     "test_report"),
    ("text_cut_in_a_word", SCREEN, "len && text[len] != ' ';)", "len && 0;)", "test_report"),
    ("counters_kept", PMU, "\tif (err)\n\t\tput_back(p, s);", "", "test_pmu"),
    ("counter_restarted_only", PMU, "s->control[i]);\n\t}\n\tif (p->global)\n",
     "0);\n\t}\n\tif (p->global)\n", "test_pmu"),
    ("missing_event_counted", PMU, " || r.ebx & INTEL_LACKS_BOTH", "", "test_pmu"),
    ("process_may_count", PMU, "if (!platform_ring0())", "if (0)", "test_pmu"),
]


def make(*words):
    return subprocess.run(["make", "-s", "-C", ROOT, f"BUILD={BUILD}", *words],
                          capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name, source, old, new, unit", MUTANTS, ids=[m[0] for m in MUTANTS])
def test_killed(name, source, old, new, unit):
    text = (ROOT / source).read_text()
    assert text.count(old) == 1, f"{source} has {text.count(old)} times: {old}"
    folder = BUILD / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    mutated = folder / f"{name}.c"
    mutated.write_text(text.replace(old, new))
    built = make("mutant", f"SRC={source}", f"MUTATED={mutated}", f"UNIT={unit}")
    assert built.returncode == 0, built.stderr
    run = subprocess.run([folder / name], capture_output=True, text=True, timeout=120,
                         cwd=ROOT, env={**os.environ, "MCSPIN_DEBUG": str(BUILD / "mcspin.debug")})
    assert run.returncode != 0, f"{unit} passed with the mutant {name}"
