/* SPDX-License-Identifier: GPL-2.0-only */
#include "jump_label.h"
#include "text-patching.h"
#include "../bench/tsc.h"
#include "../platform.h"
#include "../report/event.h"

static bool initialised, broken;
static u64 flips, last_ticks;

static u8 *entry_code(const struct jump_entry *e)
{
	return (u8 *)&e->code + e->code;
}

static struct static_key *entry_key(const struct jump_entry *e)
{
	return (struct static_key *)(((u64)&e->key + e->key) & ~1ull);
}

static bool entry_branch(const struct jump_entry *e)
{
	return ((u64)&e->key + e->key) & 1;
}

/* The bytes of a site: a jump when the key differs from the sense of the branch in line. */
static void entry_text(const struct jump_entry *e, bool enabled, u8 *text)
{
	static const u8 nop5[POKE_LEN] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
	s32 rel = (s32)((u8 *)&e->target + e->target - (entry_code(e) + POKE_LEN));

	if (enabled == entry_branch(e)) {
		memcpy(text, nop5, POKE_LEN);
		return;
	}
	text[0] = 0xe9;
	memcpy(text + 1, &rel, 4);
}

static int verify(const struct jump_entry *e, bool enabled)
{
	u8 want[POKE_LEN], have[POKE_LEN];

	entry_text(e, enabled, want);
	if (!platform_text_read(entry_code(e), have, POKE_LEN) && !memcmp(want, have, POKE_LEN))
		return 0;
	event_warn("jump label: unexpected bytes %02x %02x %02x %02x %02x at %p, not %02x %02x %02x "
		   "%02x %02x",
		   have[0], have[1], have[2], have[3], have[4], (void *)entry_code(e), want[0],
		   want[1], want[2], want[3], want[4]);
	return -EINVAL;
}

int jump_label_init(void)
{
	int err = 0;

	for (const struct jump_entry *e = __start___jump_table; e < __stop___jump_table; e++) {
		if (verify(e, entry_key(e)->enabled > 0))
			err = -EINVAL;
	}
	broken = err != 0;
	initialised = true;
	return err;
}

unsigned static_key_sites(const struct static_key *key)
{
	unsigned n = 0;

	for (const struct jump_entry *e = __start___jump_table; e < __stop___jump_table; e++)
		n += entry_key(e) == key;
	return n;
}

u64 static_key_flips(void)
{
	return flips;
}

u64 static_key_flip_ticks(void)
{
	return last_ticks;
}

/* Entries stand in link order; the batch must be sorted by address for the trap's search. */
static unsigned collect(const struct static_key *key, bool enabled, struct poke *pokes, int *err)
{
	unsigned n = 0;

	for (const struct jump_entry *e = __start___jump_table; e < __stop___jump_table; e++) {
		unsigned at;

		if (entry_key(e) != key)
			continue;
		if (n == POKE_MAX) {
			*err = -E2BIG;
			return 0;
		}
		if (verify(e, !enabled))
			*err = -EINVAL;
		for (at = n++; at && pokes[at - 1].addr > entry_code(e); at--)
			pokes[at] = pokes[at - 1];
		pokes[at].addr = entry_code(e);
		entry_text(e, enabled, pokes[at].text);
	}
	return n;
}

static int update(struct static_key *key, bool enabled)
{
	static struct poke pokes[POKE_MAX];
	unsigned count;
	int err = 0;
	u64 start;

	count = collect(key, enabled, pokes, &err);
	if (err || !count)
		return err;
	if (platform_text_open() == TEXT_WAY_NONE)
		return -EPERM;
	start = tsc_begin();
	err = text_poke_bp_batch(pokes, count, &poke_ops_live);
	last_ticks = tsc_begin() - start;
	platform_text_close();
	flips++;
	return err;
}

static int set_count(struct static_key *key, s32 count)
{
	bool was = key->enabled > 0, is = count > 0;
	int err = 0;

	if (!initialised || broken) {
		event_warn("static key %p used %s", (void *)key,
			   broken ? "although its sites are not as built" : "before jump_label_init()");
		return -EPERM;
	}
	if (count < 0)
		return -EINVAL;
	if (was != is)
		err = update(key, is);
	/* A processor that did not answer in time is an error, but the text is changed. */
	if (!err || err == -ETIMEDOUT)
		WRITE_ONCE(key->enabled, count);
	return err;
}

int static_key_enable(struct static_key *key)
{
	return key->enabled > 0 ? 0 : set_count(key, 1);
}

int static_key_disable(struct static_key *key)
{
	/* Linux warns when a counted key is disabled outright; here it is refused. */
	if (key->enabled > 1)
		return -EINVAL;
	return key->enabled == 0 ? 0 : set_count(key, 0);
}

int static_key_slow_inc(struct static_key *key)
{
	return set_count(key, key->enabled + 1);
}

int static_key_slow_dec(struct static_key *key)
{
	return set_count(key, key->enabled - 1);
}
