/*
 * local.pml: goroutines of one process pass a lease on among themselves, with fences from a
 * reserved block, while renewals are under way and other processes want the lock. Fences
 * rise over all leases, one lease at a time is believed in, and an answer that was meant for
 * one lease never ends another's.
 *
 * Mirrors Lease.giveUp, Lease.Release, line.successor, line.pass; grant.renew, apply, lose;
 * mint.lua, renew.lua and release.lua. README.md says what is left out, and what each BREAK_
 * macro breaks.
 */

#ifndef RENEWALS
#define RENEWALS 2	/* under way at once */
#endif
#ifndef BLOCK
#define BLOCK 2		/* fences asked for at once */
#endif
#ifndef FENCES
#define FENCES 9	/* issued in all: the bound of the search */
#endif
#ifndef PASSES
#define PASSES 3	/* Config.LocalHandovers */
#endif

mtype = { nobody, process, other };
mtype = { none, sent, renewed, gone, released };

/* The server. */
mtype owner = nobody;
byte counter;			/* the last fence issued */
byte value_fence;		/* in the lock's value */

/* The process: at most one grant at a time. */
bool granted;			/* it has a grant, and the grant is not over */
byte grant_fence;
byte next, limit;			/* of the block */
byte passed;
byte lease;			/* the fence of the lease that is held, 0 for none */
bool expired;			/* the deadline is past, by the clock */
bool releasing;			/* the release was sent */
byte release_of;		/* the grant that it is for */

typedef renewal {
	mtype state = none;
	byte fences;		/* asked for; in the answer how many were got */
	byte first;
	byte grant;		/* the fence of the grant that it was sent for */
	byte lease		/* that was held when it was sent */
}
renewal wire[RENEWALS];

byte highest;			/* the highest fence of any lease so far */
byte i;

bool fences_rise = true;
bool believer_owns_lock = true;
bool passed_while_valid = true;
bool not_passed_after_release = true;
bool answer_meets_its_lease = true;

#define believes	(granted && lease > 0 && !expired)
#if RENEWALS == 2
#define flying		(wire[0].state != none && wire[0].grant == grant_fence || wire[1].state != none && wire[1].grant == grant_fence)
#define any_room	(wire[0].state == none || wire[1].state == none)
#else
#define flying		(wire[0].state != none && wire[0].grant == grant_fence || wire[1].state != none && wire[1].grant == grant_fence || wire[2].state != none && wire[2].grant == grant_fence)
#define any_room	(wire[0].state == none || wire[1].state == none || wire[2].state == none)
#endif

inline check() {
	believer_owns_lock = !(believes && (owner != process || value_fence != grant_fence));
	assert(believer_owns_lock);
	i = 0
}

inline issue(F) {
	fences_rise = F > highest;
	assert(fences_rise);
	highest = F
}

inline forget(I) {
	wire[I].state = none; wire[I].fences = 0; wire[I].first = 0; wire[I].grant = 0; wire[I].lease = 0
}

/* over: nothing is sent for the grant any more but its release. */
inline over() {
	granted = false; lease = 0; expired = false; releasing = true; release_of = grant_fence;
#if !defined(BREAK_BLOCK_OUTLIVES_GRANT) && !defined(BREAK_PASSED_AFTER_RELEASE)
	next = 0; limit = 0;
#endif
	grant_fence = 0; passed = 0
}

inline carry_out(I) {
	if
	:: owner == process && value_fence == wire[I].grant ->
		wire[I].state = renewed;
		if
		:: wire[I].fences > 0 && counter + BLOCK <= FENCES ->
			wire[I].first = counter + 1; wire[I].fences = BLOCK; counter = counter + BLOCK
		:: else -> wire[I].fences = 0
		fi
	:: else -> wire[I].state = gone; wire[I].fences = 0
	fi;
	printf("server: answers a renewal %e, fences from %d\n", wire[I].state, wire[I].first)
}

inline take_over(I) {
	if
	:: granted && wire[I].grant == grant_fence ->
		answer_meets_its_lease = wire[I].lease == lease;
		assert(answer_meets_its_lease);
		if
		:: wire[I].state == gone -> printf("process: is told that it lost the lock\n"); over()
		:: else ->
			if
			:: wire[I].fences > 0 && next >= limit ->
				next = wire[I].first; limit = wire[I].first + wire[I].fences
			:: else
			fi
		fi
	:: else
	fi;
	forget(I)
}

active proctype model() {
end:	do
	/* The lock is granted to the process, with a block or by message; or to another. */
	:: atomic { owner == nobody && !granted && !releasing && counter + BLOCK <= FENCES ->
		owner = process; grant_fence = counter + 1; value_fence = grant_fence; granted = true;
		if
		:: counter = counter + BLOCK
		:: counter = counter + 1
		fi;
#ifdef BREAK_BLOCK_OUTLIVES_GRANT
		if
		:: next < limit
		:: else -> next = grant_fence; limit = counter + 1
		fi;
#else
		next = grant_fence; limit = counter + 1;
#endif
		printf("process: is granted the lock, fences %d to %d\n", next, limit - 1);
		issue(next); lease = next; next++;
		check() }
	:: d_step { owner == nobody && counter < FENCES ->
		owner = other; counter++; value_fence = counter;
		printf("other: takes the lock, fence %d\n", counter);
		issue(counter);
		check() }
	:: d_step { owner == other -> owner = nobody; value_fence = 0; printf("other: is gone\n"); check() }

	/* It renews, and wants fences when it has none left. */
	:: d_step { granted && any_room && counter < FENCES ->
		i = 0;
		do
		:: wire[i].state == none -> break
		:: else -> i++
		od;
		wire[i].state = sent; wire[i].grant = grant_fence; wire[i].lease = lease;
		wire[i].fences = (next >= limit -> BLOCK : 0);
		printf("process: renews\n");
		check() }
	:: d_step { wire[0].state == sent -> carry_out(0); check() }
	:: d_step { wire[0].state == renewed || wire[0].state == gone -> take_over(0); check() }
	:: d_step { wire[0].state != none -> forget(0); printf("a renewal or its answer is lost\n"); check() }
	:: d_step { wire[1].state == sent -> carry_out(1); check() }
	:: d_step { wire[1].state == renewed || wire[1].state == gone -> take_over(1); check() }
	:: d_step { wire[1].state != none -> forget(1); printf("a renewal or its answer is lost\n"); check() }
#if RENEWALS > 2
	:: d_step { wire[2].state == sent -> carry_out(2); check() }
	:: d_step { wire[2].state == renewed || wire[2].state == gone -> take_over(2); check() }
	:: d_step { wire[2].state != none -> forget(2); printf("a renewal or its answer is lost\n"); check() }
#endif

	/* A goroutine gives up the lease, and passes it on. */
#ifdef BREAK_PASSED_PAST_DEADLINE
#define in_time	true
#else
#define in_time	(!expired)
#endif
#ifdef BREAK_PASSED_WHILE_RENEWING
#define landed	true
#else
#define landed	(!flying)
#endif
#ifdef BREAK_PASSED_AFTER_RELEASE
	:: d_step { (granted || releasing) && next < limit && passed < PASSES && in_time && landed ->
#else
	:: d_step { granted && next < limit && passed < PASSES && in_time && landed ->
#endif
		passed_while_valid = !expired;
		assert(passed_while_valid);
		not_passed_after_release = !releasing;
		assert(not_passed_after_release);
		passed++;
		issue(next); lease = next; next++;
		printf("process: passes the lease on, fence %d\n", lease);
		check() }

	/* Or the lease ends, by a release or by its deadline. The release reaches the server. */
	:: d_step { granted -> printf("process: ends its lease\n"); over(); check() }
	:: d_step { releasing ->
		if
		:: owner == process && value_fence == release_of -> owner = nobody; value_fence = 0
		:: else
		fi;
		releasing = false; release_of = 0;
		printf("server: releases\n");
		check() }

	/* The deadline passes, whether somebody notices or not; then the lock may expire. */
	:: d_step { granted && !expired -> expired = true; printf("the deadline passes\n"); check() }
	:: d_step { owner == process && !believes ->
		owner = nobody; value_fence = 0; printf("server: the lock expires\n"); check() }
	od
}
