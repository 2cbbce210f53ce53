package parser

import "strings"

// reservedWords are the words that can't be names unless quoted: Hive 4's
// reserved keywords. Everything else that the grammar uses is a name wherever
// the grammar does not want the keyword.
var reservedWords = wordSet(`ALL ALTER AND ANY ARRAY AS AUTHORIZATION BETWEEN BIGINT BINARY BOOLEAN BOTH BY CASE CAST
 CHAR COLUMN COMMIT CONF CONSTRAINT CREATE CROSS CUBE CURRENT CURRENT_DATE CURRENT_TIMESTAMP CURSOR DATABASE DATE
 DECIMAL DELETE DESCRIBE DISTINCT DOUBLE DROP ELSE END EXCEPT EXCHANGE EXISTS EXTENDED EXTERNAL EXTRACT FALSE FETCH FLOAT
 FLOOR FOLLOWING FOR FOREIGN FROM FULL FUNCTION GRANT GROUP GROUPING HAVING IF IMPORT IN INNER INSERT INT INTEGER
 INTERSECT INTERVAL INTO IS JOIN LATERAL LEADING LEFT LESS LIKE LOCAL MACRO MAP MERGE MINUS MORE NONE NOT NULL NUMERIC OF ON
 ONLY OR ORDER OUT OUTER OVER PARTIALSCAN PARTITION PERCENT PRECEDING PRECISION PRESERVE PRIMARY PROCEDURE QUALIFY RANGE
 READS REAL REFERENCES REGEXP REVOKE RIGHT RLIKE ROLLBACK ROLLUP ROW ROWS SELECT SET SMALLINT SOME START SYNC TABLE
 TABLESAMPLE THEN TIME TIMESTAMP TO TRAILING TRANSFORM TRIGGER TRUE TRUNCATE UNBOUNDED UNION UNIQUEJOIN UPDATE USER USING
 UTC_TIMESTAMP VALUES VARCHAR VIEWS WHEN WHERE WINDOW WITH`)

// functionWords are reserved words that are function names all the same.
var functionWords = wordSet(`IF ARRAY MAP BIGINT BINARY BOOLEAN CURRENT_DATE CURRENT_TIMESTAMP DATE DOUBLE FLOAT FLOOR REAL GROUPING INT SMALLINT TIMESTAMP LEFT RIGHT`)

// clauseWords are not reserved in Hive but begin a clause where an alias could
// stand, so that they are no aliases without AS.
var clauseWords = wordSet(`LIMIT OFFSET SORT CLUSTER DISTRIBUTE CLUSTERED PARTITIONED ANTI SEMI`)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

func isReserved(upper string) bool     { return reservedWords[upper] }
func isFunctionWord(upper string) bool { return functionWords[upper] }
func isClauseWord(upper string) bool   { return clauseWords[upper] }

// unsupported has the first words of Hive statements that the engine does not
// have, their name in the refusal and, if there is no sense in them here, why.
// Longest match first.
var unsupported = []struct{ words, name, reason string }{
	{"ALTER MATERIALIZED", "ALTER MATERIALIZED VIEW", ""}, {"ALTER SCHEDULED", "scheduled queries", ""},
	{"ALTER RESOURCE", "resource plans", noYARN}, {"ALTER TRIGGER", "resource plans", noYARN}, {"ALTER POOL", "resource plans", noYARN},
	{"ALTER USER", "resource plans", noYARN}, {"ALTER GROUP", "resource plans", noYARN}, {"ALTER APPLICATION", "resource plans", noYARN},
	{"ALTER DATACONNECTOR", "data connectors", ""}, {"ALTER INDEX", "indexes", "Hive has dropped them; tables have a ROW KEY"},
	{"CREATE MATERIALIZED", "CREATE MATERIALIZED VIEW", ""}, {"CREATE TEMPORARY FUNCTION", "CREATE FUNCTION", noJVM},
	{"CREATE TEMPORARY MACRO", "CREATE MACRO", ""}, {"CREATE FUNCTION", "CREATE FUNCTION", noJVM}, {"CREATE ROLE", "roles", ""},
	{"CREATE SCHEDULED", "scheduled queries", ""}, {"CREATE RESOURCE", "resource plans", noYARN}, {"CREATE TRIGGER", "resource plans", noYARN},
	{"CREATE POOL", "resource plans", noYARN}, {"CREATE USER", "resource plans", noYARN}, {"CREATE GROUP", "resource plans", noYARN},
	{"CREATE APPLICATION", "resource plans", noYARN}, {"CREATE DATACONNECTOR", "data connectors", ""}, {"CREATE REMOTE", "remote databases", ""},
	{"CREATE INDEX", "indexes", "Hive has dropped them; tables have a ROW KEY"}, {"CREATE OR REPLACE SCHEDULED", "scheduled queries", ""},
	{"DROP MATERIALIZED", "DROP MATERIALIZED VIEW", ""}, {"DROP FUNCTION", "DROP FUNCTION", noJVM}, {"DROP TEMPORARY FUNCTION", "DROP FUNCTION", noJVM},
	{"DROP TEMPORARY MACRO", "DROP MACRO", ""}, {"DROP ROLE", "roles", ""}, {"DROP SCHEDULED", "scheduled queries", ""},
	{"DROP RESOURCE", "resource plans", noYARN}, {"DROP TRIGGER", "resource plans", noYARN}, {"DROP POOL", "resource plans", noYARN},
	{"DROP USER", "resource plans", noYARN}, {"DROP GROUP", "resource plans", noYARN}, {"DROP APPLICATION", "resource plans", noYARN},
	{"DROP DATACONNECTOR", "data connectors", ""}, {"DROP INDEX", "indexes", "Hive has dropped them; tables have a ROW KEY"},
	{"EXPORT", "EXPORT", ""}, {"IMPORT", "IMPORT", ""},
	{"REPL", "REPL", ""}, {"DELETE", "DELETE", ""}, {"UPDATE", "UPDATE", ""}, {"MERGE", "MERGE", ""}, {"PREPARE", "PREPARE", ""},
	{"EXECUTE", "EXECUTE", ""}, {"START TRANSACTION", "transactions of several statements", ""}, {"COMMIT", "transactions of several statements", ""},
	{"ROLLBACK", "transactions of several statements", ""}, {"GRANT", "GRANT", ""}, {"REVOKE", "REVOKE", ""},
	{"LOCK", "LOCK", "each statement reads one snapshot, writers don't wait for readers"},
	{"UNLOCK", "UNLOCK", "each statement reads one snapshot, writers don't wait for readers"},
	{"RELOAD", "RELOAD FUNCTIONS", noJVM}, {"KILL", "KILL QUERY", ""}, {"ABORT", "ABORT", ""}, {"CACHE", "CACHE", ""},
	{"ENABLE", "resource plans", noYARN}, {"DISABLE", "resource plans", noYARN}, {"REPLACE", "resource plans", noYARN},
	{"DFS", "dfs", "there is no HDFS: files are local, rows live in regions"}, {"ADD", "ADD JAR|FILE|ARCHIVE", noJVM},
	{"LIST", "LIST JAR|FILE|ARCHIVE", noJVM}, {"COMPILE", "COMPILE", noJVM},
	{"LLAP", "LLAP", noYARN}, {"CRYPTO", "CRYPTO", "there is no HDFS"}, {"ERASURE", "ERASURE", "there is no HDFS"}, {"SOURCE", "source", ""},
	{"MAP", "MAP .. USING", ""}, {"REDUCE", "REDUCE .. USING", ""},
	{"SHOW GRANT", "SHOW GRANT", ""}, {"SHOW ROLES", "roles", ""}, {"SHOW ROLE", "roles", ""}, {"SHOW CURRENT", "roles", ""}, {"SHOW PRINCIPALS", "roles", ""},
	{"SHOW RESOURCE", "resource plans", noYARN}, {"SHOW DATACONNECTORS", "data connectors", ""},
	{"SHOW INDEX", "indexes", "Hive has dropped them; tables have a ROW KEY"}, {"SHOW INDEXES", "indexes", "Hive has dropped them; tables have a ROW KEY"},
	{"SHOW FORMATTED", "indexes", "Hive has dropped them; tables have a ROW KEY"},
}

const (
	noYARN = "there is no YARN: pools and slots are set when a node starts"
	noJVM  = "there is no JVM to load classes into"
)

// statementWords begin the statements that exist, for suggestions.
var statementWords = []string{"SELECT", "WITH", "FROM", "VALUES", "INSERT", "LOAD", "CREATE", "DROP", "DESCRIBE", "DESC",
	"SHOW", "USE", "SET", "RESET", "EXPLAIN", "ALTER", "TRUNCATE", "ANALYZE", "MSCK", "DELETE", "UPDATE", "MERGE"}

// showWords may follow SHOW, for suggestions.
var showWords = []string{"TABLES", "VIEWS", "DATABASES", "SCHEMAS", "PARTITIONS", "COLUMNS", "CREATE", "FUNCTIONS", "TBLPROPERTIES", "TABLE", "CONF", "LOCKS", "TRANSACTIONS", "COMPACTIONS"}
