/*
 * adopt.pml: a lock is carried to another process. Its holder detaches it and gives the ticket
 * to two processes. Each tries to adopt the lock, gives up, and tries again, while requests are
 * lost, come late and are sent again, and a rival wants the same lock. At most one process
 * believes in the lock, and at most one adopts it.
 *
 * Mirrors adopt.lua, and what acquire.lua, renew.lua and release.lua do for the ticket's token;
 * "A lock carried to another process" in PROTOCOL.md. README.md says what is left out, and what
 * each BREAK_ macro breaks.
 */

#ifndef TRIES
#define TRIES 1		/* of each adopter; 1 or 2 */
#endif
#ifndef LATE
#define LATE 2		/* sendings that nobody waits for any more and that may still arrive; 1 or 2 */
#endif
#ifndef PATIENCE
#define PATIENCE 2	/* ticks from a request's first sending to its not-after */
#endif
#ifndef DELETIONS
#define DELETIONS 0	/* of the lock, by an operator */
#endif

/* Whose the lock is. The ticket's token is that of the first holder. */
#define FREE	0
#define TICKET	1
#define OWN(A)	(2 * tries[A] + (A))	/* the token of an adopter's present try */
#define RIVAL	(2 * TRIES + 2)

mtype = { none, acquire, adopt };				/* requests */
mtype = { pending, adopted, gone, late };			/* answers */
/* The first holder's hold and an adopter's have the states held and over of internal/engine/hold.go. To
 * detach a lock, its holder renews it, and ends the lease once that is answered: renewing and renewed are
 * held still, detached and lost are over and not released yet. An adopter that gives up is over, too. */
mtype = { held, renewing, renewed, detached, lost, over };	/* the first holder */
mtype = { idle, asking, dead };					/* an adopter; and held, over */

/* The server. Times are countdowns in ticks of its clock: 0 is now, -1 is past. */
byte owner = TICKET;
bool mark;
bool same_grant = true;		/* if the lock is the ticket's token's, it has the fence of the ticket */
bool rival_waits;
short tombstone[RIVAL] = -1;	/* until it ends; it stands while above 0 */

/* Sendings that nobody waits for any more. */
typedef sending {
	mtype kind = none;
	byte token;
	short not_after = -1
}
sending wire[2];

/* The first holder. */
mtype first = held;
bool ticket;			/* is given away */
short until = -1;		/* the not-after of an acquire of its own that went unanswered; the ticket has it */

/* The adopters. */
mtype stage[2] = idle;
byte tries[2];
mtype answer[2] = none;		/* to the request under way; pending until it has arrived */
short not_after[2] = -1;
bool unheard[2];		/* a sending of this request was given up */
bool lapsed[2];			/* the lock that the answer gives has expired since, or was deleted */
bool compared[2];		/* only in BREAK_TWO_STEPS */
bool ended[RIVAL];		/* tokens that an adopter is done with */

bool rival_believes;
byte deletions;

byte i;
mtype said = none;

/* The properties. Each is true except in a state that breaks it. */
byte adopter;			/* the token that has adopted the lock */
bool adopted_once = true;
bool adopts_the_grant = true;
bool one_believer = true;
bool believer_owns_lock = true;
bool no_orphan_lock = true;
bool no_lost_wakeup = true;
bool ticket_is_kept = true;

#ifdef BREAK_NO_NOT_AFTER
#define past(N)	false
#else
#define past(N)	((N) <= 0)
#endif
#ifdef BREAK_NO_SWAP
#define owned_by(T)	TICKET	/* an adopter goes on under the ticket's token */
#else
#define owned_by(T)	(T)
#endif

#define first_believes	(first == held || first == renewing || first == renewed)
#define believes(A)	(stage[A] == held)
#define trusted(T)	(first_believes && (T) == TICKET || rival_believes && (T) == RIVAL || \
			 believes(0) && (T) == owned_by(OWN(0)) || believes(1) && (T) == owned_by(OWN(1)))
#define in_force	(owner == TICKET && same_grant)	/* what the ticket stands for */
#define room		(wire[LATE - 1].kind == none)
#define may_arrive(K, T)	(wire[0].kind == K && wire[0].token == T || wire[1].kind == K && wire[1].token == T)

inline check() {
	one_believer = deletions || first_believes + rival_believes + believes(0) + believes(1) <= 1;
	assert(one_believer);
	believer_owns_lock = deletions || !(first_believes && owner != TICKET || rival_believes && owner != RIVAL ||
		believes(0) && owner != owned_by(OWN(0)) || believes(1) && owner != owned_by(OWN(1)));
	assert(believer_owns_lock);
	/* A ticket's lock that nobody adopts expires. One that came back after that is nobody's. */
	no_orphan_lock = deletions || !(owner == TICKET && !same_grant && (ticket || first == over) && !may_arrive(acquire, TICKET));
	assert(no_orphan_lock);
	for (i : 2 .. RIVAL - 1) {
		no_orphan_lock = !(ended[i] && owner == i && !may_arrive(adopt, i));
		assert(no_orphan_lock)
	}
	no_lost_wakeup = !(rival_waits && owner != FREE && !mark);
	assert(no_lost_wakeup);
	i = 0; said = none
}

/* free_lock takes the lock from its owner. */
inline free_lock() {
	lapsed[0] = lapsed[0] || answer[0] == adopted;
	lapsed[1] = lapsed[1] || answer[1] == adopted;
	owner = FREE; mark = false; same_grant = false
}

/* hand_over gives the lock, which is free, to the rival, who hears at once. */
inline hand_over() { owner = RIVAL; mark = false; rival_waits = false; rival_believes = true }

/* run_release is release.lua, for token T, with a tombstone until U. */
inline run_release(T, U) {
	ticket_is_kept = !(T == TICKET && ticket && in_force);
	assert(ticket_is_kept);
	if
	:: owner == T && mark && rival_waits -> free_lock(); hand_over()
	:: owner == T && !(mark && rival_waits) -> free_lock()
	:: else
	fi;
	if
	:: U > 0 -> tombstone[T] = U
	:: else
	fi
}

/* run_acquire is acquire.lua, for a late copy of the first holder's. */
inline run_acquire(N) {
	if
	:: owner == FREE && tombstone[TICKET] <= 0 && !past(N) ->
		if
		:: rival_waits -> hand_over()
		:: else -> owner = TICKET
		fi
	:: else
	fi
}

/* swap is what adopt.lua does once it has compared. */
inline swap(T) {
	adopts_the_grant = owner != TICKET || same_grant;
	assert(adopts_the_grant);
	adopted_once = owner != TICKET || adopter == FREE || adopter == T;
	assert(adopted_once);
	adopter = T;
	owner = owned_by(T);
	same_grant = owner == TICKET;
#ifdef BREAK_UNMARKS
	mark = false;
#endif
#ifndef BREAK_TICKET_WITHOUT_TOMBSTONE
	if
	:: until > 0 -> tombstone[TICKET] = until
	:: else
	fi;
#endif
	said = adopted
}

#if defined(BREAK_NO_COMPARISON)
#define adoptable	true
#elif defined(BREAK_ANY_FENCE)
#define adoptable	(owner == TICKET)
#else
#define adoptable	in_force
#endif
#ifdef BREAK_NOT_IDEMPOTENT
#define is_own(T)	false
#else
#define is_own(T)	(owner == (T))
#endif
#ifdef BREAK_NO_TOMBSTONE
#define is_given_up(T)	false
#else
#define is_given_up(T)	(tombstone[T] > 0)
#endif

/* run_adopt is adopt.lua, for token T, refused past N. Sets said. */
inline run_adopt(T, N) {
	if
	:: is_own(T) -> said = adopted
	:: !is_own(T) && is_given_up(T) -> said = gone
	:: !is_own(T) && !is_given_up(T) && past(N) -> said = late
	:: !is_own(T) && !is_given_up(T) && !past(N) && adoptable -> swap(T)
	:: else -> said = gone
	fi
}

inline clear(I) { wire[I].kind = none; wire[I].token = 0; wire[I].not_after = -1 }

inline keep(KIND, T, N) {
	i = (wire[0].kind == none -> 0 : 1);
	wire[i].kind = KIND; wire[i].token = T; wire[i].not_after = N
}

/* arrive: a late sending arrives, or is lost. Its answer is lost in any case. */
inline arrive(I) {
	if
	:: wire[I].kind == acquire -> run_acquire(wire[I].not_after); printf("server: a late acquire of the ticket's token arrives\n")
	:: wire[I].kind == adopt -> run_adopt(wire[I].token, wire[I].not_after); printf("server: answers a late adoption, token %d, %e\n", wire[I].token, said)
	:: true; printf("a late sending is lost\n")
	fi;
	if
	:: I == 0 -> wire[0].kind = wire[1].kind; wire[0].token = wire[1].token; wire[0].not_after = wire[1].not_after
	:: else
	fi;
	clear(1)
}

inline older(T) {
	if
	:: T > -1 -> T--
	:: else
	fi
}

active proctype world() {
	atomic {		/* an acquire of its own may still be under way */
		if
		:: until = PATIENCE; keep(acquire, TICKET, PATIENCE)
		:: true
		fi;
		i = 0
	};
	do
	/* The first holder would detach the lock, and renews it. If that fails, its lease goes on. */
	:: d_step { first == held -> first = renewing; printf("first: would detach, and renews\n") }
	:: d_step { first == renewing -> first = (in_force -> renewed : lost); printf("first: is answered\n"); check() }
	:: d_step { first == renewing -> first = held; printf("first: is not answered\n") }
	/* It ends its lease, and gives the ticket away after that. */
	:: d_step { first == renewed -> first = detached; printf("first: ends its lease\n") }
#ifdef BREAK_TICKET_BEFORE_THE_END
	:: d_step { (first == renewing || first == renewed) && !ticket ->
#else
	:: d_step { first == detached && !ticket ->
#endif
		ticket = true; printf("first: gives the ticket away\n") }
	/* Or it releases the lock, or loses it, and takes back what the server may have. */
	:: d_step { first_believes && !ticket -> first = lost; printf("first: ends its lease, without a ticket\n") }
#ifdef BREAK_TAKES_BACK
	:: d_step { first == lost || first == detached ->
#else
	:: d_step { first == lost ->
#endif
		printf("first: releases\n");
		run_release(TICKET, until);
		first = over;
		check() }

	:: atomic { wire[0].kind != none -> arrive(0); check() }
	:: atomic { wire[1].kind != none -> arrive(1); check() }

	/* The rival, whose scripts take no time. */
	:: d_step { owner == FREE -> hand_over(); printf("rival: has the lock\n"); check() }
	:: d_step { owner != FREE && owner != RIVAL && !rival_waits -> rival_waits = true; mark = true; printf("rival: waits\n"); check() }
	:: d_step { rival_waits -> rival_waits = false; printf("rival: leaves\n"); check() }
	:: d_step { rival_believes -> rival_believes = false; run_release(RIVAL, -1); printf("rival: releases\n"); check() }
	:: d_step { rival_believes -> rival_believes = false; printf("rival: dies\n"); check() }

	/* A lock expires when nobody believes in it any more: lease.pml shows that. A ticket's does not while an
	 * acquire of its token may arrive. */
#ifdef BREAK_SHORT_TICKET
	:: d_step { owner != FREE && !trusted(owner) ->
#else
	:: d_step { owner != FREE && !trusted(owner) && !(in_force && first == detached && until > 0) ->
#endif
		free_lock(); printf("server: the lock expires\n"); check() }

	/* An operator deletes it. */
	:: d_step { deletions < DELETIONS && owner != FREE ->
		deletions++;
		free_lock();
		printf("operator: deletes the lock\n");
		check() }

	:: d_step { true ->
		older(until);
		for (i : 0 .. 1) {
			older(wire[i].not_after);
			older(not_after[i])
		}
		for (i : 1 .. RIVAL - 1) {
			older(tombstone[i])
		}
		i = 0;
		printf("a tick\n") }
	od
}

#define me (_pid - 1)

/* end_try: the token is over. */
inline end_try() {
	ended[OWN(me)] = true; stage[me] = idle; not_after[me] = -1; unheard[me] = false; lapsed[me] = false
}

active [2] proctype adopter_of_the_ticket() {
end:	do
	/* It sends its request, and sends it again when it has given up on a sending. */
	:: d_step { stage[me] == idle && ticket && tries[me] < TRIES ->
		tries[me]++; stage[me] = asking; not_after[me] = PATIENCE;
		printf("%d adopts, token %d\n", me, OWN(me)) }
	:: d_step { stage[me] == asking && answer[me] == none -> answer[me] = pending; printf("%d sends\n", me) }
#ifdef BREAK_TWO_STEPS
	:: d_step { answer[me] == pending && !compared[me] && in_force && !past(not_after[me]) -> compared[me] = true; printf("server: compares for %d\n", me) }
	:: d_step { compared[me] -> compared[me] = false; swap(OWN(me)); answer[me] = said; printf("server: writes for %d\n", me); check() }
#endif
	:: d_step { answer[me] == pending && !compared[me] ->
		run_adopt(OWN(me), not_after[me]);
		answer[me] = said;
		printf("server: answers %d: %e\n", me, said);
		check() }

	/* It gives up on a sending, which may still arrive; or that was lost, or its answer was. When its
	 * caller goes, it gives up for good. */
	:: atomic { answer[me] == pending && !compared[me] && room ->
		keep(adopt, OWN(me), not_after[me]);
		answer[me] = none; unheard[me] = true; i = 0;
		printf("%d gives up on a sending\n", me) }
	:: d_step { answer[me] != none && !compared[me] ->
		answer[me] = none; unheard[me] = true; lapsed[me] = false;
		printf("%d: a request or its answer was lost\n", me) }
	:: d_step { stage[me] == asking && answer[me] == none && unheard[me] -> stage[me] = over; printf("%d gives up\n", me) }

	/* It reads an answer. One that comes after the deadline brings no lease. */
	:: d_step { answer[me] == adopted ->
		stage[me] = (lapsed[me] -> over : held);
		answer[me] = none; lapsed[me] = false;
		printf("%d reads that it has adopted the lock\n", me);
		check() }
	:: d_step { answer[me] == gone ->
		answer[me] = none; printf("%d reads that it is gone\n", me);
		end_try();
		if
		:: until > 0 -> run_release(TICKET, until)
		:: else
		fi;
		check() }
	:: d_step { answer[me] == late ->
		answer[me] = none; not_after[me] = PATIENCE; unheard[me] = false;
		printf("%d reads that it was late\n", me) }

	/* It ends its lease. The release is sent until it is answered. */
	:: d_step { stage[me] == held -> stage[me] = over; printf("%d ends its lease\n", me); check() }
	:: d_step { stage[me] == held -> stage[me] = dead; printf("%d dies\n", me); check() }
	:: d_step { stage[me] == over ->
		printf("%d releases\n", me);
#ifdef BREAK_RELEASE_WITHOUT_TOMBSTONE
		not_after[me] = -1;
#else
		not_after[me] = (unheard[me] -> not_after[me] : -1);
#endif
		run_release(OWN(me), not_after[me]);
		end_try();
		check() }
	od
}
