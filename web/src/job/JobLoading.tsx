/** The shape of a result, before anything of it is known. */
export function JobLoading() {
  return (
    <div role="status" aria-label="Loading" className="space-y-6">
      <div className="skeleton h-6 w-64 max-w-full" />
      <div className="card h-44 p-6">
        <div className="skeleton h-9 w-3/4" />
        <div className="skeleton mt-4 h-5 w-1/2" />
      </div>
      <div className="grid grid-cols-1 gap-6 lg:grid-cols-2">
        <div className="card h-96" />
        <div className="card h-96" />
      </div>
    </div>
  );
}
