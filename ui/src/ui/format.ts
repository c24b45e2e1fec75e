/** Formatting of numbers, sizes, costs, times and titles. Pure. */

const HOUR = 3_600;
const DAY = 86_400;

/** 850 ms, 4.2 s, 3 min 5 s, 2 h 10 min */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < HOUR) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / HOUR)} h ${Math.floor((whole % HOUR) / 60)} min`;
}

/** 980, 12.3k, 1.2M */
export function count(value: number): string {
  if (value < 1000) return String(value);
  if (value < 999_950) return `${(value / 1000).toFixed(value < 99_950 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

/** Dollars; an unknown price is not a price of nothing. */
export function cost(value: number | null | undefined): string {
  if (value == null) return "price unknown";
  if (value === 0) return "$0";
  return value < 0.01 ? `$${value.toPrecision(2)}` : `$${value.toFixed(2)}`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} kB`;
  return `${(value / 1024 / 1024).toFixed(1)} MB`;
}

/** now, 5 min, 3 h, yesterday, 4 d, 12 Mar */
export function timeAgo(micros: number, now: number): string {
  const seconds = Math.max(0, now / 1000 - micros / 1_000_000);
  if (seconds < 60) return "now";
  if (seconds < HOUR) return `${Math.floor(seconds / 60)} min`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h`;
  if (seconds < 7 * DAY) return `${Math.floor(seconds / DAY)} d`;
  return new Date(micros / 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

/** The displayed name of a chat: its title, or its first words until it has one. */
export function chatName(chat: { title: string | null; opening?: string | null }): string {
  return chat.title ?? chat.opening ?? "New chat";
}

const TIME = { hour: "numeric", minute: "2-digit" } as const;
const DATE = { day: "numeric", month: "short" } as const;
// Created once: creating a formatter takes longer than rendering the rest of a row.
const SAME_DAY = new Intl.DateTimeFormat(undefined, TIME);
const SAME_YEAR = new Intl.DateTimeFormat(undefined, { ...DATE, ...TIME });
const LONG_AGO = new Intl.DateTimeFormat(undefined, { ...DATE, ...TIME, year: "numeric" });

/** 6:30 PM for today, else Nov 12, 6:30 PM; with the year if it is another one */
export function shortTime(micros: number, now: number): string {
  const then = new Date(micros / 1000);
  const today = new Date(now);
  if (then.toDateString() === today.toDateString()) return SAME_DAY.format(then);
  const isThisYear = then.getFullYear() === today.getFullYear();
  return (isThisYear ? SAME_YEAR : LONG_AGO).format(then);
}

/** 6:30:05 PM */
export function timeWithSeconds(micros: number): string {
  return new Date(micros / 1000).toLocaleTimeString();
}

export function fullTime(micros: number): string {
  return new Date(micros / 1000).toLocaleString();
}
