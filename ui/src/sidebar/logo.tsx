/** The logo. */

export function Logo({ size = 20 }: { readonly size?: number }) {
  return (
    <svg className="sidebar-mark" viewBox="0 0 32 32" width={size} height={size} aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M16 6v13M16 12c-4 0-6-2-6-5M16 12c4 0 6-2 6-5M8 25c3-1 6-3 8-6 2 3 5 5 8 6M16 19v7" />
    </svg>
  );
}
