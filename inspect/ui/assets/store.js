// What the page knows of all locks.

export class Store {
  constructor() {
    this.locks = new Map(); // by id
    this.state = null; // how the latest look ended; null before the first
    this.offset = 0; // of the server's clock to this browser's, in ms
  }

  now() {
    return Date.now() + this.offset;
  }

  reset() {
    this.locks = new Map();
    this.state = null;
  }

  // apply returns what may have changed: "order" of the list, "lease" of some locks, or "".
  apply(changes) {
    let what = "";
    for (const values of changes.rows ?? []) {
      const lock = lockOf(values);
      this.locks.set(lock.id, lock);
      what = "order";
    }
    for (const id of changes.gone ?? []) {
      this.locks.delete(id);
      what = "order";
    }
    for (const [id, until] of changes.renewed ?? []) {
      const lock = this.locks.get(id);
      if (lock) lock.until = until;
      what ||= "lease";
    }
    if (changes.state) {
      this.state = changes.state;
      if (changes.state.t) this.tell(changes.state.t);
    }
    return what;
  }

  // tell takes the server's time.
  tell(t) {
    this.offset = t - Date.now();
  }
}

// lockOf takes apart what row.go writes.
function lockOf([id, name, kind, holders, mode, owner, host, foreign, used, limit, since, until, fence, waiting, waited]) {
  const text = `${name}\n${owner}\n${host}\n${kind}`.toLowerCase();
  return { id, name, kind, holders, mode, owner, host, foreign: foreign === 1, used, limit, since, until, fence, waiting, waited, text };
}

// stateOf is how a lock is coloured.
export function stateOf(lock) {
  if (lock.waiting > 0) return "waiting";
  return lock.holders > 0 ? "held" : "idle";
}
