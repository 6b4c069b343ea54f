/*
 * local.pml: goroutines of one process pass a lease on among themselves, with fences from a
 * reserved block, while renewals are under way and other processes want the lock. Fences
 * rise over all leases, one lease at a time is believed in, and an answer to one lease's request
 * never ends another lease.
 *
 * Mirrors holdLease.giveUp, Lease.Release, waitQueue.successor and pass, hold.renew, apply and
 * lose; mint.lua, renew.lua and release.lua. README.md says what is left out, and what each
 * BREAK_ macro breaks.
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

/*
 * The process has at most one hold at a time, in the states of internal/engine/hold.go (type state).
 *	none	it has no hold, or has released it
 *	claimed	handed over by message, with one fence. Its first renewal makes it held
 *	held	granted in a reply, or renewed
 *	retired	the client closes: the lease has ended, and is not passed on, but not released yet
 *	over	released or lost; the release is sent
 * The fifth, changing, is one of read-write locks: shares.pml.
 */
mtype = { claimed, held, retired, over };
mtype state = none;
#define steady	(state == claimed || state == held)	/* isSteady: the lease may be passed on */
#define live	(steady || state == retired)
byte grant_fence;
byte next, limit;			/* of the block */
byte passed;
byte lease;			/* the fence of the lease that is held, 0 for none */
bool expired;			/* the deadline is past, by the clock */
byte release_of;		/* the fence of the hold that the release is for */

typedef renewal {
	mtype state = none;
	byte fences;		/* asked for; in the answer, reserved */
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

#define believes	(steady && lease > 0 && !expired)
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

/* stop is hold.stop: nothing is sent for the hold any more but its release. */
inline stop() {
	state = over; lease = 0; expired = false; release_of = grant_fence;
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
	:: live && wire[I].grant == grant_fence ->
		answer_meets_its_lease = wire[I].lease == lease;
		assert(answer_meets_its_lease);
		if
		:: wire[I].state == gone -> printf("process: is told that it lost the lock\n"); stop()
		:: else ->
			if
			:: state == claimed -> state = held
			:: else
			fi;
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
	:: atomic { owner == nobody && state == none && counter + BLOCK <= FENCES ->
		owner = process; grant_fence = counter + 1; value_fence = grant_fence;
		if
		:: state = held; counter = counter + BLOCK
		:: state = claimed; counter = counter + 1
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

	/* It renews, and asks for fences if it has none left. */
	:: d_step { steady && any_room && counter < FENCES ->
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
#if defined(BREAK_PASSED_AFTER_RELEASE)
#define may_pass	(steady || state == over)
#elif defined(BREAK_PASSED_WHEN_RETIRED)
#define may_pass	live
#else
#define may_pass	steady
#endif
	:: d_step { may_pass && next < limit && passed < PASSES && in_time && landed ->
		not_passed_after_release = state != over;
		assert(not_passed_after_release);
		passed_while_valid = steady && !expired;
		assert(passed_while_valid);
		passed++;
		issue(next); lease = next; next++;
		printf("process: passes the lease on, fence %d\n", lease);
		check() }

	/* Or the client closes; or the hold ends, by a release or by its deadline. The release reaches the server. */
	:: d_step { steady -> printf("process: closes\n"); state = retired; check() }
	:: d_step { live -> printf("process: ends its hold\n"); stop(); check() }
	:: d_step { state == over ->
		if
		:: owner == process && value_fence == release_of -> owner = nobody; value_fence = 0
		:: else
		fi;
		state = none; release_of = 0;
		printf("server: releases\n");
		check() }

	/* The deadline passes, whether somebody notices or not; then the lock may expire. */
	:: d_step { live && !expired -> expired = true; printf("the deadline passes\n"); check() }
	:: d_step { owner == process && !believes ->
		owner = nobody; value_fence = 0; printf("server: the lock expires\n"); check() }
	od
}
