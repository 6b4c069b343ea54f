/*
 * break.pml: an operator breaks a lock by the grant id that it saw, which is that of the holder's token. The
 * holder is at work, hangs, or has ended by then; one process waits and another tries. Requests are lost, come
 * late and are sent again; so is an acquire of the holder. The holder hears of the break by a message that makes
 * it read the journal, by its next renewal, or never.
 *
 * Mirrors break.lua with breaking.lua, give.lua and journal.lua, note.lua and notes.lua, and what acquire.lua,
 * renew.lua and release.lua do for the holder's token; break.go, askOf in request.go, and notices.go; "What
 * operators do" in PROTOCOL.md. README.md says what is left out, and what each BREAK_ macro breaks.
 */

#ifndef OPERATORS
#define OPERATORS 1	/* who saw the same grant; 1 or 2, with one request each */
#endif
#ifndef LATE
#define LATE 1		/* sendings of a request that nobody waits for any more and that may still arrive */
#endif
#ifndef PATIENCE
#define PATIENCE 2	/* ticks from a request's first sending to its not-after */
#endif
#ifndef CLUSTER
#define CLUSTER 0	/* 1: the journal is on another node, and who breaks the lock writes the entry afterwards */
#endif
#ifndef FORGED
#define FORGED 1	/* messages from somebody who may publish */
#endif
#ifndef DEAF
#define DEAF 0		/* 1: the holder does not subscribe */
#endif
#ifndef FAILURES
#define FAILURES 0	/* of scripts: of a break before it changes anything, or of its hand-over */
#endif
#ifndef DELETIONS
#define DELETIONS 0	/* of the lock, by hand */
#endif

mtype = { free, holder, waiter, rival };			/* whose the lock is */
mtype = { none, pending };					/* a request that is not sent; that was not answered yet */
mtype = { broken, changed, nobody, late, refused };		/* answers to a break */
mtype = { taken };						/* to a renewal */
mtype = { no_entry, entry };				/* to a reading of the journal */
mtype = { idle, asking, noting, unsure, done };			/* an operator */
mtype = { held, over, queued };				/* a process; and idle, done */

/* The server. Times are countdowns in ticks of its clock: 0 is now, -1 is past. */
mtype owner = holder;
bool first = true;		/* if the lock is the holder's, it has the fence of the holder's lease: it was not taken anew by a late acquire */
short tombstone = -1;		/* of the holder's token, until it ends; it stands while above 0 */
bool known[2];			/* the reply to that operator's request is remembered */
bool journal;			/* has the entry */
bool copy;			/* a copy of the holder's acquire is under way */
short until = -1;		/* and its not-after */
bool begun;			/* it has been chosen whether there is one */

/* The holder. */
mtype hold = held;
mtype renewal = none;		/* the answer */
bool subscribed;		/* to the journal's channel */
bool message;			/* is under way on that subscription */
mtype reading = none;		/* of the journal: the answer */
bool again;			/* the journal is to be read once more */
bool unread;			/* the latest reading failed */
bool rumour;			/* a message has said that the lock was broken */

/* The waiter and the rival. */
mtype wait = idle;
bool due;			/* the waiter was told when to look */
mtype other = idle;

/* The operators. */
mtype stage[2] = idle;
mtype answer[2] = none;
short not_after[2] = -1;	/* of all sendings of its request */
bool unheard[2];		/* a sending was given up */
byte copies[2];			/* of the request, which may still arrive */

byte forged, failures, deletions;
bool effects[2];		/* that operator's request has broken a lock */
bool anew[2];			/* which a late acquire had taken anew */
bool was_broken;		/* the holder's token */
bool hand_over_failed;

byte i;
mtype said = none;

/* The properties. Each is true except in a state that breaks it. */
bool only_what_was_seen = true;
bool broken_stays_broken = true;
bool over_when_given_up = true;
bool told_what_it_did = true;
bool believer_owns_lock = true;
bool elder_is_recorded = true;
bool no_lost_wakeup = true;
bool ended_by_the_journal = true;
bool subscriber_knows = true;

#define in_force	(owner == holder && first)

/* forget sets what nothing depends on any more to one value, for fewer states. */
inline forget() {
	if
	:: !copy -> until = -1; tombstone = -1
	:: else
	fi;
	for (i : 0 .. 1) {
		if
		:: (stage[i] == unsure || stage[i] == done) && copies[i] == 0 -> not_after[i] = -1; known[i] = false
		:: else
		fi
	}
	i = 0; said = none
}

inline check() {
	believer_owns_lock = deletions || !(wait == held && owner != waiter || other == held && owner != rival);
	assert(believer_owns_lock);
	/* Between the break and its hearing of it, the holder still believes; another may believe, too, by then. */
	elder_is_recorded = deletions || !(hold == held && !in_force && !(CLUSTER -> was_broken : journal));
	assert(elder_is_recorded);
	broken_stays_broken = !(was_broken && owner == holder);
	assert(broken_stays_broken);
	no_lost_wakeup = !(wait == queued && owner == free && !due && !hand_over_failed);
	assert(no_lost_wakeup);
	subscriber_knows = !(hold == held && journal && subscribed && !message && reading == none && !unread);
	assert(subscriber_knows);
	forget()
}

/* free_lock takes the lock from its owner. */
inline free_lock() { owner = free; first = false }

/* give passes on a lock that has ended: to the waiter; or it leaves it free, for a time in which nothing may be
 * granted, and tells the waiter when to look. */
inline give() {
	free_lock();
	if
	:: wait == queued -> owner = waiter; wait = held; due = false
	:: wait == queued -> due = true
	:: wait == queued && failures < FAILURES -> failures++; hand_over_failed = true; printf("server: the hand-over fails\n")
	:: wait != queued
	fi
}

/* run_release is release.lua, for token T. */
inline run_release(T) {
	if
	:: owner == T -> give()
	:: else
	fi;
	if
	:: T == holder && until > 0 -> tombstone = until
	:: else
	fi
}

/* take gives the lock, which is free, to who asks for it, unless somebody waits. */
inline take(T) {
	if
	:: wait == queued -> owner = waiter; wait = held; due = false; hand_over_failed = false
	:: else -> owner = T
	fi
}

/* announce publishes that there is, or will be, an entry. */
#define announce()	message = message || subscribed && hold == held

#ifdef BREAK_ANNOUNCED_BEFORE_THE_ENTRY
#define announced_by_the_entry()	skip
#else
#define announced_by_the_entry()	announce()
#endif

#ifdef BREAK_NO_COMPARISON
#define may_break	(owner != free)
#else
#define may_break	(owner == holder)
#endif
#if defined(BREAK_NO_NOT_AFTER) || defined(BREAK_REMEMBERED_FOR_EVER)
#define past(N)	false
#elif defined(BREAK_NOT_AFTER_INCLUDED)
#define past(N)	((N) < 0)
#else
#define past(N)	((N) <= 0)
#endif

/* break_lock is what break.lua does once it has compared. */
inline break_lock(O) {
	only_what_was_seen = owner == holder && !effects[O];
	assert(only_what_was_seen);
	over_when_given_up = not_after[O] > 0;
	assert(over_when_given_up);
	effects[O] = true;
	anew[O] = !first;
	was_broken = true;
#if defined(BREAK_SHORT_TOMBSTONE)
	tombstone = 1;
#elif !defined(BREAK_NO_TOMBSTONE)
	tombstone = PATIENCE;
#endif
#ifndef BREAK_NO_ID
	known[O] = true;
#endif
#ifndef BREAK_UNRECORDED
	journal = journal || !CLUSTER;
#endif
#ifdef BREAK_NO_HAND_OVER
	free_lock();
#else
	give();
#endif
	said = broken
}

/* run_break is break.lua, for an operator's request. Sets said. */
inline run_break(O) {
	if
	:: known[O] -> said = broken
	:: !known[O] && past(not_after[O]) -> said = late
	:: !known[O] && !past(not_after[O]) && owner == free -> said = nobody
	:: !known[O] && !past(not_after[O]) && owner != free && !may_break -> said = changed
	:: !known[O] && !past(not_after[O]) && may_break ->
#ifdef BREAK_ANNOUNCED_BEFORE_THE_ENTRY
		announce();
#else
		if
		:: !CLUSTER -> announce()
		:: else
		fi;
#endif
		if
		:: failures < FAILURES ->
			failures++; said = refused; printf("server: the break fails\n");
#ifdef BREAK_REFUSED_HALFWAY
			known[O] = true	/* the reply is remembered, and then the journal cannot be written */
#endif
		:: break_lock(O)
		fi
	fi
}

/* end_hold ends the lease. */
inline end_hold() {
	hold = over; renewal = none; subscribed = false; message = false; reading = none; again = false; unread = false
}

/* ended_as_broken says that the lease ended because an operator broke the lock. */
inline ended_as_broken() {
#ifndef OUTSIDE_FORGED_AND_DELETED
	ended_by_the_journal = deletions && !in_force || was_broken;
#else
	ended_by_the_journal = was_broken;
#endif
	assert(ended_by_the_journal);
	end_hold()
}

/* read_journal has the holder read the journal, once more if it is doing so. */
inline read_journal() {
	if
	:: reading == none -> reading = pending; unread = false
#ifdef BREAK_READS_ONCE
	:: else
#else
	:: else -> again = true
#endif
	fi
}

/* notice is what a message does. */
inline notice() {
#ifdef BREAK_MESSAGE_BELIEVED
	ended_as_broken();
#else
	rumour = true; read_journal();
#endif
}

/* end_reading begins the next one if there is to be one. */
inline end_reading() { reading = (again -> pending : none); again = false }

inline older(T) {
	if
	:: T > -1 -> T--
	:: else
	fi
}

active proctype world() {
	atomic {		/* an acquire of the holder may still be under way */
		if
		:: until = PATIENCE; copy = true
		:: true
		fi;
		begun = true
	};
	do
	:: d_step { copy ->
		copy = false; printf("server: a late acquire of the holder arrives\n");
		if
		:: owner == free && tombstone <= 0 && until > 0 -> take(holder)
		:: else
		fi;
		check() }
	:: d_step { copy -> copy = false; forget(); printf("a late acquire is lost\n") }

	/* The holder renews its lease. An answer that it is the holder's changes nothing here, and so does none. */
	:: d_step { hold == held && renewal == none && !in_force ->
#ifdef BREAK_RENEWAL_CREATES
		if
		:: owner == free -> take(holder)
		:: else
		fi;
#endif
		renewal = taken; printf("server: answers a renewal: the lock is taken, or gone\n");
		check() }
	:: d_step { renewal == taken -> renewal = none; printf("holder: that answer is lost\n") }
	:: d_step { renewal == taken && !rumour -> end_hold(); printf("holder: reads that the lock was taken\n"); check() }
	:: d_step { renewal == taken && rumour -> ended_as_broken(); printf("holder: reads that the lock was taken, and has heard why\n"); check() }

	/* It subscribes, and is disconnected. What was on the way is lost then. */
	:: d_step { hold == held && !subscribed && !DEAF -> subscribed = true; printf("holder: is subscribed\n");
#ifndef BREAK_NO_READING_ONCE_SUBSCRIBED
		read_journal();
#endif
		check() }
	:: d_step { subscribed -> subscribed = false; message = false; printf("holder: the subscription is cut\n"); check() }
	:: d_step { message -> message = false; printf("holder: hears a message\n"); notice(); check() }
	:: d_step { subscribed && forged < FORGED -> forged++; printf("holder: hears a message that somebody made up\n"); notice(); check() }

	/* It reads the journal. */
	:: d_step { reading == pending -> reading = (journal -> entry : no_entry); printf("server: tells what the journal has: %e\n", reading) }
	:: d_step { reading == pending -> unread = true; end_reading(); printf("holder: a reading fails\n"); check() }
	:: d_step { reading == no_entry -> end_reading(); printf("holder: finds nothing in the journal\n"); check() }
	:: d_step { reading == entry -> printf("holder: finds itself in the journal\n"); ended_as_broken(); check() }

	/* Its lease ends: by its program, or at the deadline, which passes for one that hangs, too. Then it releases,
	 * if it still can. */
	:: d_step { hold == held -> end_hold(); printf("holder: its lease ends\n"); check() }
	:: atomic { hold == over ->
		printf("holder: releases\n");
#ifdef BREAK_RELEASES_ANOTHERS
		free_lock();
#endif
		run_release(holder); hold = done; check() }

	/* The waiter, which hears of its grants at once. */
	:: d_step { wait == idle && owner != free -> wait = queued; printf("waiter: waits\n"); check() }
	:: d_step { wait == idle && owner == free -> owner = waiter; wait = held; printf("waiter: has the lock\n"); check() }
	:: d_step { wait == queued -> wait = idle; due = false; hand_over_failed = false; printf("waiter: leaves\n"); check() }
	:: d_step { wait == queued && owner == free && (due || hand_over_failed) ->
		owner = waiter; wait = held; due = false; hand_over_failed = false; printf("waiter: looks, and has the lock\n"); check() }
	:: atomic { wait == held -> wait = idle; printf("waiter: releases\n"); run_release(waiter); check() }
	:: d_step { wait == held -> wait = idle; printf("waiter: dies\n"); check() }

	/* The rival tries, and does not wait. */
	:: d_step { other == idle && owner == free -> take(rival); other = (owner == rival -> held : idle); printf("rival: tries\n"); check() }
	:: atomic { other == held -> other = idle; printf("rival: releases\n"); run_release(rival); check() }
	:: d_step { other == held -> other = idle; printf("rival: dies\n"); check() }

	/* A lock expires when nobody believes in it any more: lease.pml shows that. The waiter was told when. */
	:: d_step { owner == holder && hold != held || owner == waiter && wait != held || owner == rival && other != held ->
		free_lock(); due = wait == queued; printf("server: the lock expires\n"); check() }

	/* Somebody deletes it. The waiter was told when it would have expired. */
	:: d_step { deletions < DELETIONS && owner != free ->
		deletions++; free_lock(); due = wait == queued; printf("the lock is deleted by hand\n"); check() }

	/* What an operator's request has done is remembered until its not-after. */
#ifndef BREAK_REMEMBERED_FOR_EVER
	:: d_step { known[0] && not_after[0] <= 0 -> known[0] = false; printf("server: forgets the request of 0\n") }
	:: d_step { known[1] && not_after[1] <= 0 -> known[1] = false; printf("server: forgets the request of 1\n") }
#endif

	:: d_step { until > -1 || tombstone > -1 || not_after[0] > -1 || not_after[1] > -1 ->
		older(until); older(tombstone); older(not_after[0]); older(not_after[1]);
		printf("a tick\n") }
	od
}

#define me (_pid - 1)

active [OPERATORS] proctype operator() {
end:	do
	/* It sends its request, and sends it again when it has given up on a sending. */
	:: d_step { begun && stage[me] == idle -> stage[me] = asking; not_after[me] = PATIENCE; printf("%d would break the lock\n", me) }
	:: d_step { stage[me] == asking && answer[me] == none -> answer[me] = pending; printf("%d sends\n", me) }
	:: atomic { answer[me] == pending ->
		run_break(me);
		answer[me] = said; printf("server: answers %d: %e\n", me, said);
		check() }
	:: atomic { copies[me] > 0 ->
		copies[me]--; run_break(me); printf("server: answers a late copy of %d: %e\n", me, said);
		check() }
	:: d_step { copies[me] > 0 -> copies[me]--; forget(); printf("a late copy is lost\n") }

	/* It gives up on a sending, which may still arrive; or that was lost, or its answer was. When its time is up,
	 * it gives up for good, and says that it does not know. */
	:: d_step { answer[me] == pending && copies[me] < LATE ->
		copies[me]++; answer[me] = none; unheard[me] = true; printf("%d gives up on a sending\n", me) }
	:: d_step { answer[me] != none -> answer[me] = none; unheard[me] = true; printf("%d: a request or its answer was lost\n", me) }
	:: d_step { stage[me] == asking && answer[me] == none && unheard[me] -> stage[me] = unsure; forget(); printf("%d gives up\n", me) }

	/* It reads an answer. */
	:: d_step { answer[me] == broken ->
		answer[me] = none; printf("%d reads that it has broken the lock\n", me);
		told_what_it_did = effects[me];
		assert(told_what_it_did);
		stage[me] = (CLUSTER -> noting : done);
		forget() }
	:: d_step { answer[me] == changed || answer[me] == nobody ->
		printf("%d reads that the holder is gone\n", me);
		answer[me] = none; stage[me] = done;
		told_what_it_did = !effects[me] || anew[me];
		assert(told_what_it_did);
		forget() }
	:: d_step { answer[me] == refused -> answer[me] = none; stage[me] = unsure; forget(); printf("%d reads that it failed\n", me) }
	:: d_step { answer[me] == late ->
		answer[me] = none; printf("%d reads that it was late\n", me);
#ifdef BREAK_ASKS_ANEW
		if
		:: true -> not_after[me] = PATIENCE
#else
		if
		:: unheard[me] -> stage[me] = unsure
		:: else -> not_after[me] = PATIENCE
#endif
		fi;
		forget() }

	/* In a Cluster it writes the entry, which announces it; or it dies. */
	:: d_step { stage[me] == noting -> journal = true; announced_by_the_entry(); stage[me] = done; printf("%d writes the journal\n", me); check() }
	:: d_step { stage[me] == noting -> stage[me] = done; forget(); printf("%d dies\n", me) }
	od
}
