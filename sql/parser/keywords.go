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

// unsupported maps the first words of Hive statements that the engine does not
// have yet to their name in the refusal. Longest match first.
var unsupported = []struct{ words, name string }{
	{"ALTER TABLE", "ALTER TABLE"}, {"ALTER VIEW", "ALTER VIEW"}, {"ALTER DATABASE", "ALTER DATABASE"},
	{"ALTER SCHEMA", "ALTER DATABASE"}, {"ALTER", "ALTER"},
	{"CREATE VIEW", "CREATE VIEW"}, {"CREATE OR REPLACE", "CREATE VIEW"}, {"CREATE MATERIALIZED", "CREATE MATERIALIZED VIEW"},
	{"CREATE TEMPORARY TABLE", "CREATE TEMPORARY TABLE"}, {"CREATE TEMPORARY FUNCTION", "CREATE FUNCTION"},
	{"CREATE TEMPORARY MACRO", "CREATE MACRO"}, {"CREATE FUNCTION", "CREATE FUNCTION"},
	{"CREATE EXTERNAL", "CREATE EXTERNAL TABLE"}, {"CREATE MANAGED", "CREATE MANAGED TABLE"},
	{"CREATE TRANSACTIONAL", "CREATE TRANSACTIONAL TABLE"}, {"CREATE ROLE", "roles"},
	{"CREATE SCHEDULED", "scheduled queries"}, {"CREATE RESOURCE", "resource plans"}, {"CREATE DATACONNECTOR", "data connectors"},
	{"CREATE REMOTE", "remote databases"}, {"CREATE INDEX", "indexes"},
	{"DROP VIEW", "DROP VIEW"}, {"DROP MATERIALIZED", "DROP MATERIALIZED VIEW"}, {"DROP FUNCTION", "DROP FUNCTION"},
	{"DROP TEMPORARY", "DROP TEMPORARY"}, {"DROP ROLE", "roles"}, {"DROP SCHEDULED", "scheduled queries"},
	{"DROP RESOURCE", "resource plans"}, {"DROP DATACONNECTOR", "data connectors"}, {"DROP INDEX", "indexes"},
	{"DESCRIBE FUNCTION", "DESCRIBE FUNCTION"}, {"DESC FUNCTION", "DESCRIBE FUNCTION"},
	{"INSERT OVERWRITE DIRECTORY", "INSERT OVERWRITE DIRECTORY"}, {"INSERT OVERWRITE LOCAL", "INSERT OVERWRITE DIRECTORY"},
	{"ANALYZE", "ANALYZE TABLE"}, {"MSCK", "MSCK"}, {"TRUNCATE", "TRUNCATE TABLE"}, {"EXPORT", "EXPORT"}, {"IMPORT", "IMPORT"},
	{"REPL", "REPL"}, {"DELETE", "DELETE"}, {"UPDATE", "UPDATE"}, {"MERGE", "MERGE"}, {"PREPARE", "PREPARE"},
	{"EXECUTE", "EXECUTE"}, {"START TRANSACTION", "transactions"}, {"COMMIT", "transactions"}, {"ROLLBACK", "transactions"},
	{"GRANT", "GRANT"}, {"REVOKE", "REVOKE"}, {"LOCK", "LOCK TABLE"}, {"UNLOCK", "UNLOCK TABLE"},
	{"RELOAD", "RELOAD"}, {"RESET", "RESET"}, {"KILL", "KILL QUERY"}, {"ABORT", "ABORT"}, {"CACHE", "CACHE"},
	{"ENABLE", "resource plans"}, {"DISABLE", "resource plans"}, {"REPLACE", "resource plans"},
	{"DFS", "dfs"}, {"ADD", "ADD JAR|FILE|ARCHIVE"}, {"LIST", "LIST JAR|FILE|ARCHIVE"}, {"COMPILE", "COMPILE"},
	{"LLAP", "LLAP"}, {"CRYPTO", "CRYPTO"}, {"ERASURE", "ERASURE"}, {"SOURCE", "source"},
	{"MAP", "MAP .. USING"}, {"REDUCE", "REDUCE .. USING"},
	{"SHOW", "this kind of SHOW"},
}

// statementWords begin the statements that exist, for suggestions.
var statementWords = []string{"SELECT", "WITH", "FROM", "VALUES", "INSERT", "LOAD", "CREATE", "DROP", "DESCRIBE", "DESC",
	"SHOW", "USE", "SET", "EXPLAIN", "ALTER", "TRUNCATE", "ANALYZE", "DELETE", "UPDATE", "MERGE"}
