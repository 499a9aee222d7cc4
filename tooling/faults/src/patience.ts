/** Factor on all time bounds, from `KIT_FAULTS_PATIENCE`, for runs that share their machine with other tests. */
export const patience: number = Number(process.env["KIT_FAULTS_PATIENCE"] ?? "1");
